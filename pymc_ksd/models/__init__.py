"""PyMC models become targets: score, simulation and labels in unconstrained coordinates.

The only room that reads model graphs. It may import `compilation` and `options`.
"""
