"""Draws for the models of the zoo: exact where there is a closed form, near the posterior, or NUTS.

Draws near the posterior come from normal distributions in unconstrained coordinates, whose means
and covariances are stored in ``approximations.json`` (``python -m tests.zoo.draws`` writes it), so
that a test needs no sampler.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.mode import Mode

from pymc_ksd import compile_score
from tests.zoo.registry import Entry

__all__ = ["near_posterior", "nuts", "pymc_model"]

APPROXIMATIONS = Path(__file__).with_name("approximations.json")
#: Steps of the fit of an approximation.
_STEPS = 300


def pymc_model(model: Any) -> pm.Model:
    """Return the PyMC model of whatever an entry builds."""
    return model if isinstance(model, pm.Model) else model.backend.model


def near_posterior(entry: Entry, model: Any, *, chains: int = 2, draws: int = 50) -> xr.Dataset:
    """Return draws that are exact or near the posterior, the same at every call."""
    rng = np.random.default_rng([ord(letter) for letter in entry.name])
    free = pymc_model(model)
    if entry.exact is not None:
        exact = {k: np.asarray(v) for k, v in entry.exact(rng, chains, draws).items()}
        posterior = _dataset(free, exact)
    else:
        posterior = _of_approximation(entry.name, free, rng, chains, draws)
    return posterior if entry.draws is None else entry.draws(model, posterior, rng)


def nuts(model: pm.Model, *, chains: int = 2, tune: int = 500, draws: int = 500) -> xr.DataTree:
    """Return NUTS draws of nutpie, with their unconstrained coordinates."""
    import nutpie

    compiled = nutpie.compile_pymc_model(model)
    return nutpie.sample(
        compiled,
        chains=chains,
        tune=tune,
        draws=draws,
        cores=1,
        seed=1,
        progress_bar=False,
        store_unconstrained=True,
    )


def _of_approximation(
    name: str, model: pm.Model, rng: np.random.Generator, chains: int, draws: int
) -> xr.Dataset:
    """Draw from the stored normal distribution and bring the draws back to the model's scale."""
    start = {var.name: np.asarray(value) for var, value in _starting_values(model).items()}
    variables = [var for var in model.value_vars if var.dtype.startswith("float")]
    d = sum(start[var.name].size for var in variables)
    mean, factor = _stored(name)
    if mean is None:
        mean, factor = np.concatenate([start[v.name].ravel() for v in variables]), 0.1 * np.eye(d)
    points = mean + rng.normal(size=(chains * draws, d)) @ factor.T
    # No rewriting and no compiler: a hundred evaluations of a small graph.
    outputs = [var for var in model.unobserved_value_vars if var not in model.value_vars]
    own = {var.name: var for var in model.value_vars if var.name in model.named_vars}
    function = pm.compile(
        model.value_vars,
        [*own.values(), *outputs],
        mode=Mode(linker="py", optimizer=None),
        on_unused_input="ignore",
    )
    rows = []
    for point in points:
        values, position = dict(start), 0
        for var in variables:
            size = start[var.name].size
            values[var.name] = point[position : position + size].reshape(start[var.name].shape)
            position += size
        for var in model.discrete_value_vars:
            values[var.name] = values[var.name] + rng.integers(-1, 2, size=start[var.name].shape)
        rows.append(function(**values))
    names = [*own, *(var.name for var in outputs)]
    arrays = {
        name: np.reshape(column, (chains, draws, *np.shape(column[0])))
        for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }
    return _dataset(model, arrays)


def _starting_values(model: pm.Model) -> dict[Any, np.ndarray]:
    point = model.initial_point(random_seed=1)
    return {var: point[var.name] for var in model.value_vars}


def _stored(name: str) -> tuple[Any, Any]:
    stored = json.loads(APPROXIMATIONS.read_text()) if APPROXIMATIONS.exists() else {}
    if name not in stored:
        return None, None
    return np.array(stored[name]["mean"]), np.array(stored[name]["factor"])


def _dataset(model: pm.Model, arrays: dict[str, np.ndarray]) -> xr.Dataset:
    """Label draws by the model's dims, as PyMC does."""
    data, coords = {}, {}
    for name, array in arrays.items():
        own = model.named_vars_to_dims.get(name) or [None] * (array.ndim - 2)
        dims = [dim or f"{name}_dim_{axis}" for axis, dim in enumerate(own)]
        data[name] = (("chain", "draw", *dims), array)
        for dim, size in zip(dims, array.shape[2:], strict=True):
            labels = model.coords.get(dim)
            coords[dim] = np.arange(size) if labels is None else np.asarray(labels)
    chains, draws = next(iter(arrays.values())).shape[:2]
    return xr.Dataset(data, {"chain": np.arange(chains), "draw": np.arange(draws), **coords})


def _approximate(model: pm.Model) -> dict[str, Any]:
    """Return mean and root of the covariance of the nearest normal distribution.

    Steps of natural gradients: the mean follows the expected score, and the precision the expected
    curvature, which by Stein's lemma is that of the scores with the points.
    """
    score = compile_score(model)
    rng = np.random.default_rng(1)
    start = _starting_values(model)
    mean = np.concatenate([np.ravel(value) for value in start.values()]).astype(float)
    d = len(mean)
    precision, means, precisions = 4 * np.eye(d), [], []
    for step in range(_STEPS):
        rate = 0.15 / (1 + step / 60)
        root = np.linalg.cholesky(np.linalg.inv(precision))
        half = rng.normal(size=(2 * d + 30, d))
        z = np.concatenate([half, -half])
        scores = score(mean + z @ root.T)
        kept = np.isfinite(scores).all(axis=1)
        scores, z = scores[kept], z[kept]
        # One point with a huge score must not throw the mean away.
        whitened = scores @ root
        size = np.linalg.norm(whitened, axis=1, keepdims=True)
        whitened *= np.minimum(1, 10 * np.median(size) / size)
        move = whitened.mean(axis=0)
        mean = mean + rate * root @ move / max(1, np.linalg.norm(move) / np.sqrt(d))
        curvature = -(whitened.T @ z) / len(z)
        values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
        # In coordinates where the precision is one, it may change by a bounded factor.
        change = 1 + rate * (np.clip(values, 0.1, 10) - 1)
        inverse = np.linalg.inv(root)
        precision = inverse.T @ (vectors * change) @ vectors.T @ inverse
        if step >= _STEPS // 2:
            means.append(mean)
            precisions.append(precision)
    mean = np.mean(means, axis=0)
    factor = np.linalg.cholesky(np.linalg.inv(np.mean(precisions, axis=0)))
    return {"mean": np.round(mean, 3).tolist(), "factor": np.round(factor, 3).tolist()}


def main() -> None:
    """Approximate the posteriors that have no closed form and are not stored yet."""
    from tests.zoo.models import ENTRIES

    stored = json.loads(APPROXIMATIONS.read_text()) if APPROXIMATIONS.exists() else {}
    for name, entry in ENTRIES.items():
        if name in stored or entry.exact is not None or entry.missing_packages:
            continue
        model = pymc_model(entry.build())
        try:
            stored[name] = _approximate(model)
        except Exception as error:
            # Models without a score: draws near the starting point have to do.
            sys.stderr.write(f"{name}: {type(error).__name__}: {str(error)[:200]}\n")
            continue
        lines = [f'"{key}": {json.dumps(value)}' for key, value in sorted(stored.items())]
        APPROXIMATIONS.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
