"""Observed variables: where observations are, and their density with or without free variables."""
