"""From sums to p-values: statistics, nulls, panels, tests.

It may import `engine`, `stein` and `options`.
"""
