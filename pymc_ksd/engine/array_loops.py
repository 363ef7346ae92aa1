"""What :mod:`pymc_ksd.engine.machine_loops` does, with NumPy: nothing has to be compiled.

For few points this is as fast as the functions of a member's graph, and faster than those of
several, each of which forms distances and products of scores of its own; neither they nor machine
code have to be waited for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

#: A radial kernel and its first two derivatives at squared distances.
Derivatives = tuple[Any, Any, Any]


class ArrayLoops:
    """Stein kernels of several radial kernels at pairs of points.

    Parameters
    ----------
    sources : sequence of str
        Each kernel's code, see :func:`pymc_ksd.engine.machine_code.profile_source`.
    """

    def __init__(self, sources: Sequence[str]) -> None:
        self._profiles = []
        for number, source in enumerate(sources):
            names: dict[str, Any] = {"np": np}
            exec(source, names)
            self._profiles.append(names["profile_0"])
            setattr(self, f"profile_{number}", names["profile_0"])

    def derivatives(self, kind: int, row: np.ndarray, squared: np.ndarray) -> Derivatives:
        """Return a kernel, twice its first and four times its second derivative."""
        with np.errstate(all="ignore"):  # what is not finite is refused later
            value, slope, curve = self._profiles[kind](squared, row)
            return value, 2 * slope, 4 * curve

    def reduce_block(self, inputs: Any, outputs: Any) -> None:
        """Evaluate the Stein kernels of all pairs of rows and columns, and add up each.

        Parameters
        ----------
        inputs : BlockInputs
            Points, scores, their products and what else is known.
        outputs : BlockOutputs
            Arrays to fill.
        """
        dim, products = inputs.x.shape[1], inputs.products
        squared = np.maximum(inputs.xx[:, None] + inputs.yy - 2 * products[0], 0.0)
        scores = products[1]
        cross = products[2] - inputs.xs[:, None] - inputs.yt
        if inputs.tilted.any():
            along = inputs.xs[:, None] - products[3]
            own, others = inputs.row_factors[:, None], inputs.column_factors
            tilted = own * others * scores, others * (cross + along) - own * along
            tilts = inputs.row_tilts[:, None] * inputs.column_tilts
        for k, (kind, row) in enumerate(zip(inputs.kinds, inputs.parameters, strict=True)):
            derivatives = self.derivatives(kind, row, squared)
            if inputs.tilted[k]:
                u = tilts * stein_values(derivatives, squared, *tilted, dim)
            else:
                u = stein_values(derivatives, squared, scores, cross, dim)
            outputs.totals[k] += u.sum()
            _put(k, inputs, outputs, u)
            if outputs.values.shape[2]:
                for own_values, part in zip(outputs.values[k], derivatives, strict=True):
                    own_values[:] = part

    def pairs(
        self, numbers: tuple[np.ndarray, np.ndarray, np.ndarray], arrays: Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return u of n pairs, a row and a column each, shape (members, n).

        Parameters
        ----------
        numbers : tuple of ndarray
            The members' kinds, parameters, and whether they are tilted.
        arrays : mapping of str to ndarray
            What is taken of rows and of columns.
        """
        kinds, parameters, tilted = numbers
        s, t = arrays["row.scores"], arrays["column.scores"]
        difference = arrays["row.positions"] - arrays["column.positions"]
        squared, dim = (difference**2).sum(axis=1), difference.shape[1]
        along, across = (difference * s).sum(axis=1), (difference * t).sum(axis=1)
        products = {False: ((s * t).sum(axis=1), across - along)}
        if tilted.any():
            own, others = (arrays[f"{side}.tilt_factors"][:, 0] for side in ("row", "column"))
            tilts = arrays["row.tilts"][:, 0] * arrays["column.tilts"][:, 0]
            products[True] = (own * others * products[False][0], others * across - own * along)
        u = np.empty((len(kinds), len(squared)))
        for own_u, kind, row, is_tilted in zip(u, kinds, parameters, tilted, strict=True):
            derivatives = self.derivatives(kind, row, squared)
            own_u[:] = stein_values(derivatives, squared, *products[bool(is_tilted)], dim)
            if is_tilted:
                own_u *= tilts
        return u


def stein_values(
    derivatives: Derivatives, squared: np.ndarray, scores: np.ndarray, cross: np.ndarray, dim: int
) -> np.ndarray:
    """Return u from s·t and (x − y)·(t − s), see :mod:`pymc_ksd.stein.langevin`."""
    value, first, second = derivatives
    with np.errstate(all="ignore"):
        u: np.ndarray = value * scores + first * (cross - dim) - second * squared
    return u


def _put(k: int, inputs: Any, outputs: Any, u: np.ndarray) -> None:
    """Put a Stein kernel where it is wanted."""
    same = inputs.position >= 0
    if outputs.u.shape[1]:
        outputs.u[k] = u
    if same and (outputs.small.shape[1] or outputs.before.shape[2]):
        u = np.triu(u, inputs.position + 1)
    if outputs.small.shape[1]:
        outputs.small[k] = u * (inputs.scales[k] * (2.0 if same else 1.0))
        outputs.small[k][np.abs(outputs.small[k]) < 1e-30] = 0.0
    if outputs.before.shape[2]:
        own_group = inputs.row_groups[:, None] == inputs.column_groups
        outputs.before[k, 0] += u.sum(axis=0)
        outputs.before[k, 1] += np.where(own_group, u, 0.0).sum(axis=0)
