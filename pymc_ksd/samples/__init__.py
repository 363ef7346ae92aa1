"""Users' containers become arrays: data, draws, streams of draws, covariates.

The only room that reads containers. It may import `models` and `options`.
"""
