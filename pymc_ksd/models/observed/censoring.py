r"""Censored values, completed: hidden ones are drawn from the model beyond their bounds.

Given a draw :math:`\theta_s` and that a value is beyond a bound, it has the model's distribution
there. Under a true model completed data have the distribution before censoring, whatever the bounds
were, those of uncensored values included: it is not needed when a value that was seen would have
been censored. With :math:`u` uniform a value above the bound :math:`b` is

.. math::

    F^{-1}\left(F(b) + u\,(1 - F(b))\right),

by the quantile function where PyMC knows it, and by bisection of :math:`\log F` elsewhere. Far in
the tails, where :math:`F(b)` is rounded to one or zero, :math:`\log (1 - F)` or :math:`\log F` is
bisected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cached_property

import numpy as np
import pymc as pm
from pymc.distributions.censored import CensoredRV
from pytensor.graph.utils import MethodNotDefined
from pytensor.tensor.type import TensorType
from pytensor.tensor.variable import TensorVariable

from pymc_ksd.compilation import compile_function
from pymc_ksd.models.lattice import is_discrete
from pymc_ksd.models.log_density import explain_missing_logp
from pymc_ksd.models.observed.layout import Layout
from pymc_ksd.models.observed.part import Part

#: How often an interval around a quantile is widened, and then halved: until it is a number apart.
_WIDENED, _HALVED = 1_100, 1_100
#: Share beyond a bound below which its logarithm is bisected.
_FAR = 1e-8
#: A function of ``(values, *given)`` arranged as the model has them.
Function = Callable[..., np.ndarray]


def censored_part(whole: Part) -> Part | None:
    """Return the values behind a censored variable, None for other variables and for counts.

    Counts with atoms at their bounds are counts, too, and compared as they are.
    """
    rv = whole.rv
    if not isinstance(rv.owner.op, CensoredRV) or is_discrete(rv):
        return None
    values, lower, upper = rv.owner.inputs
    return Part(
        name=whole.name,
        rv=values,
        data=whole.data,
        key="censored",
        left_out=whole.left_out,
        bounds=(lower, upper),
    )


class Completion:
    """Draws hidden values, and hides those beyond their bounds.

    Parameters
    ----------
    layout : Layout
        Where observations are.
    rv : TensorVariable
        The distribution before censoring, as a graph of `given`.
    bounds : sequence of TensorVariable
        The lower and the upper bound, as graphs of `given`.
    given : sequence of TensorVariable
        Inputs in the place of free variables.
    """

    def __init__(
        self,
        layout: Layout,
        rv: TensorVariable,
        bounds: Sequence[TensorVariable],
        given: Sequence[TensorVariable],
    ) -> None:
        self._layout = layout
        self._given = list(given)
        self._rv = rv
        self._bounds = compile_function(list(given), list(bounds))
        value = TensorType("float64", shape=(None,) * rv.ndim)("value")
        with explain_missing_logp([layout.name]):
            log_cdf = pm.logcdf(rv, value)
        self._log_cdf: Function = compile_function([value, *given], log_cdf)
        quantile = None
        with suppress(NotImplementedError, MethodNotDefined, TypeError, ValueError):
            quantile = pm.icdf(rv, value)
        self._quantile: Function | None = None
        if quantile is not None:
            self._quantile = compile_function([value, *given], quantile)

    def hidden(self, values: np.ndarray, *given: np.ndarray) -> np.ndarray:
        """Return values as they are observed: none beyond its bounds."""
        full = self._layout.from_points(values)
        clipped = np.clip(full, *self._bounds(*given))
        return self._layout.to_points(clipped)

    def completed(
        self, values: np.ndarray, rng: np.random.Generator, *given: np.ndarray
    ) -> np.ndarray:
        """Return observed values with those at their bounds drawn from the model beyond them."""
        full = np.array(self._layout.from_points(values), dtype=np.float64)
        low, high = (np.broadcast_to(bound, full.shape) for bound in self._bounds(*given))
        below, above = full <= low, full >= high
        uniform = self._layout.from_points(rng.uniform(size=values.shape))
        if not (below.any() or above.any()):
            return values
        with np.errstate(all="ignore"):
            at_bound = np.asarray(self._log_cdf(np.where(below, low, full), *given))
            share = np.exp(at_bound)
            # Uniform between zero and the share at the lower bound, or that at the upper and one.
            target = np.where(below, uniform * share, share + uniform * (1 - share))
            far_above, far_below = above & (share > 1 - _FAR), below & (share < _FAR)
            near = (below | above) & ~(far_above | far_below)
            if near.any():
                # One that is known, in the place of those that are rounded to the last.
                target = np.where(near, target, 0.5)
                full = np.where(near, self._quantiles(target, full, above, given), full)
            for is_far, upwards in ((far_above, True), (far_below, False)):
                if is_far.any():
                    full = self._far(uniform, full, is_far, given, upwards=upwards)
        return self._layout.to_points(full)

    @cached_property
    def _log_above(self) -> Function:
        """The logarithm of the share above values, compiled if it is needed."""
        value = TensorType("float64", shape=(None,) * self._rv.ndim)("value")
        return compile_function([value, *self._given], pm.logccdf(self._rv, value))

    def _far(
        self,
        uniform: np.ndarray,
        bounds: np.ndarray,
        is_far: np.ndarray,
        given: Sequence[np.ndarray],
        *,
        upwards: bool,
    ) -> np.ndarray:
        """Return values with those at bounds far in a tail drawn beyond them."""
        log_share = self._log_above if upwards else self._log_cdf
        at_bound = np.asarray(log_share(bounds, *given))
        is_known = np.isfinite(at_bound) & (at_bound < 0)
        if not is_known[is_far].all():
            count = np.count_nonzero(is_far & ~is_known)
            raise ValueError(
                f"{count} value(s) of {self._layout.name!r} are censored so far "
                f"{'above' if upwards else 'below'} what the model expects at a draw of the "
                "posterior that the probability beyond the bound is zero in double precision: they "
                "cannot be completed. The model hardly allows them."
            )
        sign = -1.0 if upwards else 1.0
        # Others have reached what is asked of them where they are.
        target = np.where(is_far, sign * (at_bound + np.log(uniform)), sign * np.inf)
        return bisected(
            lambda values: sign * np.asarray(log_share(values, *given)),
            target,
            bounds,
            np.full(bounds.shape, upwards),
        )

    def _quantiles(
        self,
        shares: np.ndarray,
        bounds: np.ndarray,
        above: np.ndarray,
        given: Sequence[np.ndarray],
    ) -> np.ndarray:
        if self._quantile is not None:
            return np.asarray(self._quantile(shares, *given))
        return bisected(lambda values: self._log_cdf(values, *given), np.log(shares), bounds, above)


def bisected(
    function: Function, target: np.ndarray, bounds: np.ndarray, above: np.ndarray
) -> np.ndarray:
    """Return where a function that increases reaches a target, above or below bounds.

    Parameters
    ----------
    function : callable
        Maps values to numbers that increase with them, as a distribution function does.
    target : ndarray
        What these are to be.
    bounds : ndarray
        Where the search begins.
    above : ndarray of bool
        Whether it goes up from there.

    Returns
    -------
    ndarray
    """
    step = np.maximum(np.abs(bounds), 1.0)
    near, far = bounds.astype(np.float64), bounds.astype(np.float64)
    for _ in range(_WIDENED):
        reached = np.where(above, function(far) >= target, function(far) <= target)
        if reached.all() or not np.isfinite(step).all():
            break
        near = np.where(reached, near, far)
        far = np.where(reached, far, np.where(above, far + step, far - step))
        step = np.where(reached, step, 2 * step)
    low, high = np.minimum(near, far), np.maximum(near, far)
    for _ in range(_HALVED):
        middle = low + (high - low) / 2
        if ((middle <= low) | (middle >= high)).all():
            break
        less = function(middle) < target
        low, high = np.where(less, middle, low), np.where(less, high, middle)
    return high
