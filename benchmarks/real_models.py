"""What ``ksd_test`` says of good and of useless draws, on models of the zoo in ``tests/zoo``.

``python -m benchmarks.real_models`` writes ``docs/real_models.md``. Good draws are exact where the
posterior has a closed form, and stretches of long NUTS runs where it has none. Useless ones are
made of them in unconstrained coordinates, where every vector is a point.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.distributions.transforms import Ordered

from benchmarks.measurements import Measurements, write_page
from benchmarks.rates import Rate, generator, header, page
from pymc_ksd import Score, compile_score, ksd_test
from pymc_ksd.samples.containers import draws_group
from tests.zoo import models  # noqa: F401  registers them
from tests.zoo.draws import pymc_model
from tests.zoo.registry import ENTRIES

__all__ = ["KINDS", "MODELS", "answers", "model_draws", "report"]

#: Models of many shapes, none of which any constant of the test was chosen on.
MODELS = (
    "one_parameter",
    "linear_regression",
    "robust_regression",
    "heteroscedastic",
    "logistic_regression",
    "poisson_regression",
    "negative_binomial_regression",
    "gamma_regression",
    "weibull_regression",
    "ordered_logistic",
    "softmax_regression",
    "eight_schools_noncentred",
    "one_parameter_per_observation",
    "gamma_poisson_per_observation",
    "crossed_effects",
    "lkj_covariance_of_outcomes",
    "dirichlet_multinomial_rows",
    "zero_inflated_poisson",
    "hilbert_space_gaussian_process",
    "censored_weibull",
)
CHAINS, DRAWS, RUNS = 4, 500, 20
STATUSES = ("passed", "rejected", "cannot tell")
#: Draws between those that are taken of a NUTS run.
THIN = 2


def _good(chains: np.ndarray, run: int, rng: np.random.Generator) -> np.ndarray:
    return chains[:, run * DRAWS : (run + 1) * DRAWS]


def _tempered(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Widen a posterior as if its log density were halved."""
    centre = good.mean(axis=(0, 1))
    return centre + np.sqrt(2) * (good - centre)


def _of_other_data(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Move a posterior as far as one of new data of the same size typically lies from it."""
    flat = good.reshape(-1, good.shape[-1])
    first, second = flat[rng.permutation(len(flat))[:2]]
    move, dim = first - second, good.shape[-1]
    length = np.sqrt(move @ np.linalg.solve(np.atleast_2d(np.cov(flat.T)), move))
    return good + move * np.sqrt(2 * dim) / length


def _frozen(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.repeat(good[:, :1], good.shape[1], axis=1)


def _one_stuck(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Let one chain stand still, four standard deviations off."""
    draws = good.copy()
    draws[0] = good.mean(axis=(0, 1)) + 4 * good.std(axis=(0, 1))
    return draws


def _disagreeing(good: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Let two of four chains be narrow, three standard deviations to either side."""
    draws, spread = good.copy(), good.std(axis=(0, 1))
    draws[:2] = good.mean(axis=(0, 1)) + 0.3 * (good[:2] - good.mean(axis=(0, 1))) + 3 * spread
    draws[2:] = good.mean(axis=(0, 1)) + 0.3 * (good[2:] - good.mean(axis=(0, 1))) - 3 * spread
    return draws


KINDS: dict[str, Callable[[np.ndarray, np.random.Generator], np.ndarray]] = {
    "tempered": _tempered,
    "other data": _of_other_data,
    "frozen": _frozen,
    "one chain stuck": _one_stuck,
    "chains disagree": _disagreeing,
}


def answers(name: str, runs: int) -> dict[str, dict[str, int]]:
    """Return how often each status was the answer, for every kind of draws of a model."""
    entry = ENTRIES[name]
    model = pymc_model(entry.build())
    score, rng = compile_score(model), generator(name, 0)
    chains = _unconstrained(score, _draws(entry, model, runs * DRAWS, rng))
    prior = _unconstrained(score, _prior_draws(model, runs, rng))
    # The coordinates are the point: a score of them needs no transforms any more.
    values = score._target.values
    target = Score.from_callable(
        lambda points: values(points)[0], score.dim, log_density=lambda points: values(points)[1]
    )
    found: dict[str, Counter[str]] = {kind: Counter() for kind in ("good", "prior", *KINDS)}
    for run in range(runs):
        good = _good(chains, run, rng)
        samples = {"good": good, "prior": _good(prior, run, rng)}
        samples |= {kind: make(good, rng) for kind, make in KINDS.items()}
        for kind, sample in samples.items():
            found[kind][_status(target, sample, rng)] += 1
    return {kind: dict(counts) for kind, counts in found.items()}


def _status(target: Score, sample: np.ndarray, rng: np.random.Generator) -> str:
    values = sample[..., 0] if sample.shape[-1] == 1 else sample
    draws = xr.Dataset({"x": (("chain", "draw", "axis")[: values.ndim], values)})
    try:
        result = ksd_test(target, draws, random_seed=rng, progressbar=False)
    except ValueError as error:  # points where the density is zero, in numbers
        return f"error: {str(error)[:60]}"
    return str(result.attrs["status"])


def model_draws(name: str, n_draws: int) -> tuple[pm.Model, xr.Dataset]:
    """Return a model, and so many draws of each of four chains of its posterior."""
    model = pymc_model(ENTRIES[name].build())
    return model, _draws(ENTRIES[name], model, n_draws, generator(name, 0))


def _draws(entry: Any, model: pm.Model, n_draws: int, rng: np.random.Generator) -> xr.Dataset:
    if entry.exact is not None:
        exact = entry.exact(rng, CHAINS, n_draws)
        return _dataset({key: np.asarray(value) for key, value in exact.items()})
    import nutpie

    run = nutpie.sample(
        nutpie.compile_pymc_model(model),
        chains=CHAINS,
        tune=1_000,
        draws=THIN * n_draws,
        cores=1,
        seed=1,
        target_accept=0.95,
        progress_bar=False,
    )
    posterior = draws_group(run)
    assert posterior is not None
    return posterior.isel(draw=slice(None, None, THIN))


def _prior_draws(model: pm.Model, runs: int, rng: np.random.Generator) -> xr.Dataset:
    values = pm.draw(model.free_RVs, CHAINS * runs * DRAWS, random_seed=rng)
    prior = {}
    for rv, value in zip(model.free_RVs, values, strict=True):
        if isinstance(model.rvs_to_transforms[rv], Ordered):
            # PyMC draws as if there were no order; sorted values have the prior with it.
            value = np.sort(value, axis=-1)
        prior[rv.name] = value.reshape(CHAINS, runs * DRAWS, *value.shape[1:])
    return _dataset(prior)


def _dataset(values: dict[str, np.ndarray]) -> xr.Dataset:
    return xr.Dataset(
        {
            name: (("chain", "draw", *(f"{name}_{axis}" for axis in range(array.ndim - 2))), array)
            for name, array in values.items()
        }
    )


def _unconstrained(score: Score, draws: xr.Dataset) -> np.ndarray:
    """Return all draws in unconstrained coordinates, shape (chain, draw, d)."""
    names = score._target.names
    n_chains, n_draws = draws.sizes["chain"], draws.sizes["draw"]
    flat = {
        name: draws[name]
        .transpose("chain", "draw", ...)
        .values.reshape(n_chains * n_draws, *draws[name].shape[2:])
        for name in names
    }
    points = score._target.unconstrain(flat)
    return points.reshape(n_chains, n_draws, -1)


def report(runs: int, workers: int, kept: Path | None, names: Sequence[str] = MODELS) -> str:
    """Measure everything and return the page."""
    with Measurements(kept, name="real-models", workers=workers) as measurements:
        cells: dict[str, Future[Any]] = {
            name: measurements(f"{name}, {runs}", answers, name, runs) for name in names
        }
        found = {name: cell.result() for name, cell in cells.items()}
    kinds = ("good", "prior", *KINDS)
    rows = [
        f"| {name.replace('_', ' ')} | {' | '.join(_cell(found[name][kind]) for kind in kinds)} |"
        for name in names
    ]
    totals = {
        kind: sum((Counter(found[name][kind]) for name in names), Counter()) for kind in kinds
    }
    n = sum(totals["good"].values())
    useless = sum((totals[kind] for kind in kinds[1:]), Counter())
    rejected = Rate(totals["good"]["rejected"], n)
    untold = Rate(totals["good"]["cannot tell"], n)
    passed = Rate(useless["passed"], sum(useless.values()))
    command = f"python -m benchmarks.real_models --runs {runs}"
    if tuple(names) != MODELS:
        command += f" --models {' '.join(names)}"
    return page(
        [
            "# Good and useless draws of real models",
            "What `ksd_test` says, with everything at its default, of draws of models that people "
            f"have: {len(names)} models of `tests/zoo`, {CHAINS} × {DRAWS} draws, {runs} runs "
            "each. *Good* draws are exact, or stretches of one long NUTS run, every other draw. "
            "Of these are made: the posterior with half its log density (*tempered*), moved as "
            "far as that of other data lies (*other data*), chains that stand still (*frozen*), "
            "one chain that stands still four standard deviations off (*one chain stuck*), and "
            "two chains three standard deviations to either side (*chains disagree*). *Prior* are "
            "draws of the prior.",
            f"```\n{command}\n```",
            f"Of {n} sets of good draws {rejected} % are rejected at the level of 5 %, and the "
            f"test cannot tell of {untold} %. Of {sum(useless.values()):,} sets of useless draws "
            f"{passed} % pass: {useless['rejected']:,} are rejected, of {useless['cannot tell']:,} "
            f"the test cannot tell, and {_errors(useless):,} are refused with an error, because "
            "the score is not finite at some of their points.",
            "Cells say how often draws passed / were rejected / could not be told.",
            [*header("model", *kinds), *rows],
        ]
    )


def _cell(counts: Mapping[str, int]) -> str:
    known = " / ".join(str(counts.get(status, 0)) for status in STATUSES)
    errors = _errors(counts)
    return f"{known} ({errors} errors)" if errors else known


def _errors(counts: Mapping[str, int]) -> int:
    return sum(count for status, count in counts.items() if status not in STATUSES)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    parser.add_argument("--models", nargs="+", default=MODELS, choices=sorted(ENTRIES))
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for finished models, to go on from")
    write_page(
        parser,
        lambda options: report(options.runs, options.workers, options.keep, options.models),
        "docs/real_models.md",
        arguments,
    )


if __name__ == "__main__":
    main()
