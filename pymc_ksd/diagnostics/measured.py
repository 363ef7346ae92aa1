"""One pass over all pairs of a sampler's draws, from which every diagnostic of them is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm

from pymc_ksd.diagnostics.prepare import Prepared, comparing, prepare
from pymc_ksd.diagnostics.results import attributes
from pymc_ksd.diagnostics.score import Score, target_of
from pymc_ksd.engine.pairs import PairSums
from pymc_ksd.options import optional_count
from pymc_ksd.samples.containers import check_draws
from pymc_ksd.stats.statistic import Effort
from pymc_ksd.stats.statistics import VStatistic
from pymc_ksd.stein.kernels import Kernel


@dataclass(frozen=True)
class Measured:
    """Draws, and sums over all their pairs.

    Attributes
    ----------
    prepared : Prepared
        The draws.
    sums : PairSums
        The sums, joined over members, with those over the draws before each draw.
    """

    prepared: Prepared
    sums: PairSums

    def attributes(self, result: str) -> dict[str, Any]:
        """Return the attributes of a result."""
        settings = self.prepared.settings
        del settings["sample"]
        return attributes({"result": result, **settings})

    @property
    def chain_coords(self) -> dict[str, Any]:
        """The chains' labels, where they have some."""
        posterior = self.prepared.sample.posterior
        return {"chain": posterior["chain"].values} if "chain" in posterior.coords else {}

    def chain_curves(self) -> tuple[np.ndarray, np.ndarray]:
        """Return V and the mean diagonal after every draw of each chain, shape (chain, draw)."""
        sample = self.prepared.sample
        diagonal = sample.by_chain(self.sums.diagonal)
        counts = np.arange(1, sample.n_draws + 1)
        v = np.cumsum(diagonal + 2 * sample.by_chain(self.sums.earlier[:, 1]), axis=1) / counts**2
        return v, np.cumsum(diagonal, axis=1) / counts


def measure(
    model: pm.Model | Score | None,
    data: Any,
    *,
    kernel: str | Kernel | Callable[..., Any],
    bandwidth: Any,
    scale: str | None,
    block_size: int | None,
    random_seed: int | np.random.Generator | None,
    progressbar: bool,
    compile_kwargs: Mapping[str, Any] | None,
    client: Any,
    coordinates: bool = False,
    var_names: Sequence[str] | None = None,
) -> Measured:
    """Read, score and compare all draws; arguments are those of the public functions."""
    check_draws(data, "data")
    how = comparing(kernel, bandwidth, scale, compile_kwargs, draws=True)
    effort = Effort(optional_count(block_size, "block_size", 1), progressbar, client)
    target = target_of(model, None, None, compile_kwargs)
    unknown = [name for name in var_names or () if name not in target.names]
    if unknown:
        raise ValueError(
            f"`var_names` must name free variables ({', '.join(target.names)}), got "
            f"{', '.join(unknown)}."
        )
    prepared = prepare(target, data, how, random_seed=random_seed, progressbar=progressbar)
    estimate = VStatistic().estimate(
        prepared.panel,
        prepared.points,
        effort,
        groups=prepared.sample.chain_numbers,
        details=coordinates,
    )
    assert estimate.sums is not None  # all pairs were evaluated
    return Measured(prepared, estimate.sums)
