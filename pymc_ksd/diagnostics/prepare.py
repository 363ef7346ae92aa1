"""From a user's arguments to scored and scaled points: made once, used by every diagnostic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pymc_ksd.diagnostics.panels import (
    KERNELS_FOR_DATA,
    KERNELS_FOR_DRAWS,
    PanelKernel,
    scale_of_data,
    scale_of_draws,
)
from pymc_ksd.diagnostics.scoring import (
    ScaledStream,
    check_varies,
    redrawn,
    scaled_stream,
    score_sample,
)
from pymc_ksd.engine.pairs import evaluate_pairs
from pymc_ksd.engine.walk import Effort
from pymc_ksd.models.target import Target
from pymc_ksd.options import optional_count, seeded_generator
from pymc_ksd.samples.containers import holds_draws, values_of
from pymc_ksd.samples.data import checked_samples, warn_of_few_points
from pymc_ksd.samples.draws import read_draws
from pymc_ksd.samples.sample import Sample
from pymc_ksd.samples.stream import DrawStream, is_large
from pymc_ksd.stats.panel import Panel
from pymc_ksd.stein.bandwidths import bandwidth_rule, check_bandwidth, choose_bandwidths
from pymc_ksd.stein.custom_kernels import General, Radial, get_kernel
from pymc_ksd.stein.kernels import Kernel
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.operator import SteinOperator
from pymc_ksd.stein.points import Points, check_scale
from pymc_ksd.stein.stein_kernel import OPERATORS, SteinKernel
from pymc_ksd.stein.tilt import with_tilts

#: Numbers that are simulated at a time.
_SIMULATED_NUMBERS = 100_000
#: Points at which a kernel's gradient is looked at.
_SLOPES = 100


@dataclass(frozen=True)
class Comparing:
    """How points are compared: what the user's options come to, checked before any work.

    Attributes
    ----------
    kernel : Kernel
        The base kernel.
    bandwidth : str, float or array_like
        A rule or numbers.
    scale : {None, "std", "cov", "stein", "auto"}
        How points are scaled.
    compile_kwargs : mapping, optional
        Options for ``pytensor.function``.
    joined : tuple of PanelKernel
        Kernels that are tested as one, the first of which is the reference.
    side_by_side : bool, default False
        Whether several bandwidths are tested side by side, and not averaged.
    multiples : tuple of float
        What bandwidths are multiplied by, each for a kernel of its own, where they are side by
        side.
    """

    kernel: Kernel
    bandwidth: Any
    scale: str | None
    compile_kwargs: Mapping[str, Any] | None
    joined: tuple[PanelKernel, ...] = ()
    side_by_side: bool = False
    multiples: tuple[float, ...] = (1.0,)

    @property
    def joins_several(self) -> bool:
        """Whether several kernels are tested as one."""
        return bool(self.joined) or self.side_by_side

    def panel(
        self,
        operator: SteinOperator,
        positions: np.ndarray,
        rng: np.random.Generator,
        *,
        tilted: bool = False,
    ) -> Panel:
        """Return the Stein kernels for points, with bandwidths chosen for them.

        Those with a tilt are left out unless points have their terms.
        """
        stein = SteinKernel(operator, self.kernel, self.compile_kwargs)
        widths = choose_bandwidths(self.bandwidth, positions, rng)
        if self.side_by_side:
            return Panel.side_by_side(stein, np.outer(self.multiples, widths).ravel())
        panel = Panel.of_bandwidths(stein, widths)
        if not self.joined:
            return panel
        (reference,), dim = panel.members, positions.shape[1]
        first, *others = (
            one.member(reference, self.bandwidth, dim)
            for one in self.joined
            if tilted or not one.tilted
        )
        return Panel((first,), tuple(others))

    def points(
        self, operator: SteinOperator, points: np.ndarray, values: Sequence[np.ndarray]
    ) -> tuple[Points, bool]:
        """Return scaled points, and whether they have the terms of tilted kernels."""
        scaled = operator.scaled(points, values, self.scale)
        tilted = operator.name == Langevin.name and len(values) > 1
        if not (tilted and any(one.tilted for one in self.joined)):
            return scaled, False
        return with_tilts(scaled, values[1]), True

    def scaled_for(
        self, operator: SteinOperator, sample: Sample, values: Sequence[np.ndarray]
    ) -> Comparing:
        """Return the same with a scale that suits the sample."""
        if self.scale != "auto":
            return self
        if sample.are_draws:
            return replace(self, scale=scale_of_draws(sample))
        if operator.name != Langevin.name:
            return replace(self, scale=None)
        return replace(self, scale=scale_of_data(sample.points, values[0]))


def comparing(
    kernel: str | Kernel | Callable[..., Any] | None,
    bandwidth: Any,
    scale: str | None,
    compile_kwargs: Mapping[str, Any] | None,
    *,
    draws: bool,
    joins: bool = False,
) -> Comparing:
    """Check how points are to be compared, and put defaults for data or draws in place.

    Several kernels are joined only by a test that `joins` them.
    """
    base = get_kernel(kernel if kernel is not None else "imq" if draws else "rbf")
    # A kernel or a bandwidth that is named is tested alone.
    named = kernel is not None or not (isinstance(bandwidth, str) and bandwidth == "auto")
    kernels = () if named or not joins else KERNELS_FOR_DRAWS if draws else KERNELS_FOR_DATA
    if scale == "auto" and not draws and not kernels:
        scale = None
    check_scale(None if isinstance(scale, str) and scale == "auto" else scale)
    check_bandwidth(base, bandwidth)
    rule = bandwidth_rule(bandwidth, draws=draws, scale=scale)
    side_by_side = joins and np.size(bandwidth) > 1
    return Comparing(base, rule, scale, compile_kwargs, kernels, side_by_side)


def effort_of(block_size: int | None, progressbar: bool, client: Any) -> Effort:
    """Check how sums over pairs are to be computed."""
    return Effort(optional_count(block_size, "block_size", 1), progressbar, client)


@dataclass(frozen=True)
class Prepared:
    """A target and a sample, ready to be compared.

    Attributes
    ----------
    target : Target
        What the sample may come from.
    sample : Sample
        The unconstrained points; of draws that are too many to hold, some of every chain.
    points : Points
        All of them scored and scaled, or a stream of them.
    panel : Panel
        The Stein kernels.
    how : Comparing
        How points are compared.
    asked : Comparing
        The same before a scale was chosen that suits the sample.
    seed : int or str
        The seed that was used.
    rng : numpy.random.Generator
        Randomness for what comes next.
    bandwidth_rng : numpy.random.Generator
        Picks points for the median distances of simulated samples.
    values : tuple of ndarray
        What the operator takes of the unconstrained points; empty for a stream.
    """

    target: Target
    sample: Sample
    points: Points | ScaledStream
    panel: Panel
    how: Comparing
    asked: Comparing
    seed: int | str
    rng: np.random.Generator
    bandwidth_rng: np.random.Generator
    values: tuple[np.ndarray, ...] = ()

    @property
    def settings(self) -> dict[str, Any]:
        """What decided the result, for its attributes."""
        width = self.how.bandwidth
        return {
            "target": self.target.kind,
            "sample": "draws" if self.sample.are_draws else "data",
            "scores": self.sample.scores,
            "kernel": self.how.kernel,
            "bandwidth": self.panel.bandwidths if isinstance(width, str) else np.ravel(width),
            "scale": self.how.scale,
            "n": self.points.n_points,
            "n_chains": self.sample.n_chains,
            "dim": self.target.dim,
            "seed": self.seed,
        }

    def replicates(self, count: int) -> Iterator[tuple[Points, Panel]]:
        """Simulate samples of as many points, with bandwidths chosen for them, without end.

        Where rows do not matter, several samples are drawn and scored at a time, at most `count`.
        """
        n, target = self.points.n_points, self.target
        operator = OPERATORS[target.operator]
        together = 1
        if target.pointwise:
            together = min(count, max(1, _SIMULATED_NUMBERS // (n * target.dim)))
        while True:
            points, values = redrawn(
                lambda: target.simulated(n * together, self.rng),
                target.values,
                operator,
                lambda count: (
                    f"Data simulated from the density have no finite score at {count} points of "
                    f"{', '.join(target.names)}: it piles up at the boundary of its support, "
                    "beyond the precision of numbers."
                ),
            )
            for start in range(0, len(points), n):
                own = points[start : start + n]
                own_values = [v[start : start + n] for v in values]
                how = self.asked.scaled_for(operator, Sample(own), own_values)
                scaled, tilted = how.points(operator, own, own_values)
                yield (
                    scaled,
                    how.panel(operator, scaled.positions, self.bandwidth_rng, tilted=tilted),
                )


def prepare(
    target: Target,
    data: Any,
    how: Comparing,
    random_seed: int | np.random.Generator | None = None,
    *,
    progressbar: bool = True,
    may_be_constant: bool = False,
    may_stream: bool = False,
) -> Prepared:
    """Read a sample, bring it to unconstrained coordinates, score it and scale it.

    Parameters
    ----------
    target : Target
        What it may come from.
    data : object
        Data or draws, in any container; None for the model's own data.
    how : Comparing
        How points are compared.
    random_seed : int or numpy.random.Generator, optional
        Makes it repeatable.
    progressbar : bool, default True
        Show a bar when scoring takes long.
    may_be_constant : bool, default False
        Whether the null could also test points that are all the same.
    may_stream : bool, default False
        Whether draws that are too many to hold may be read a stretch at a time.

    Returns
    -------
    Prepared
    """
    check_circular(target.circular, how.kernel)
    if data is None:
        data = None if target.observed is None else target.observed()
        if data is None:
            raise ValueError(
                "`data` is required: only a model without free variables has data of its own to "
                "test. Give draws to test whether they come from the posterior, or check with "
                "ksd_ppc(model, draws) whether the fitted model fits its data."
            )
    asked = how
    seed, rng = seeded_generator(random_seed)
    bandwidth_rng, rest = rng.spawn(2)
    operator = OPERATORS[target.operator]
    points: Points | ScaledStream
    values: tuple[np.ndarray, ...] = ()
    if may_stream and holds_draws(data) and is_large(target, data):
        how = replace(how, scale="cov") if how.scale == "auto" else how
        points = scaled_stream(DrawStream(target, data), how.scale, progressbar)
        sample = points.sample
        positions, tilted = points.scaling.positions(sample.points), False
    else:
        sample = _read(target, data)
        if not (may_be_constant and operator.takes_constant_points):
            check_varies(sample.points, target)
        values = score_sample(target, sample, progressbar)
        how = how.scaled_for(operator, sample, values)
        points, tilted = how.points(operator, sample.points, values)
        positions = points.positions
    panel = how.panel(operator, positions, bandwidth_rng, tilted=tilted)
    check_slope(panel, positions)
    return Prepared(target, sample, points, panel, how, asked, seed, rest, bandwidth_rng, values)


def _read(target: Target, data: Any) -> Sample:
    """Return the unconstrained points of data or draws."""
    if holds_draws(data):
        return read_draws(target, data)
    samples = checked_samples(values_of(data, target.variables), target.variables)
    warn_of_few_points(len(samples[target.names[0]]), target.variables)
    return Sample(target.unconstrained(samples))


def check_slope(panel: Panel, positions: np.ndarray) -> None:
    """Refuse users' functions that are flat at all points, as those made of steps are.

    With scores of zero u(x, x) is the squared length of the kernel's gradient at x.
    """
    operator, kernel = panel.members[0].stein.operator, panel.members[0].stein.kernel
    if not operator.scores or not isinstance(kernel, Radial | General):
        return  # it takes no gradient, or that of a kernel whose gradient is known
    few = positions[:_SLOPES]
    points = Points(few, {operator.scores: np.zeros_like(few)})
    if not evaluate_pairs(panel.members, points, slice(None), slice(None)).any():
        raise ValueError(
            f"`kernel` {kernel!r} must have a gradient, but it is zero at all points: write the "
            "kernel with smooth PyTensor operations that depend on where points are."
        )


def check_circular(names: Sequence[str], kernel: Kernel) -> None:
    """Refuse kernels that are not periodic for variables on a circle."""
    if names and kernel.radial:
        raise ValueError(
            f"The variable(s) {', '.join(names)} live on a circle, where `kernel` "
            f"{kernel!r} is not periodic: the test would reject true models. Pass a periodic "
            "kernel, see the example of pymc_ksd.General."
        )
