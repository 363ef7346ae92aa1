"""Checks of fitted models: residuals, what observations are compared by, the check, the witness."""
