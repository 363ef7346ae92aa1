"""Sums over pairs of points: blocks, schedule, threads, machine code, cluster, progress.

It may import `stein`, `compilation` and `options`.
"""
