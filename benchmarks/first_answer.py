"""How long a user waits for the first answer of a fresh process, with and without compiled code.

Each figure is one process: ``python -m benchmarks.first_answer MODEL ksd DRAWS`` (or ``pymc``, for
what PyMC itself takes to compile the model's log-density and gradient) prints its seconds, and
``python -m benchmarks.first_answer MODEL draws DRAWS`` makes the file of draws before;
``python -m benchmarks.first_answer notebook`` times the first notebook;
``python -m benchmarks.first_answer stored`` prints a table of first answers from gradients that
nutpie has stored, one process each.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["MODELS", "Waiting", "measure", "measure_notebook", "measure_stored"]

Waiting = dict[str, float]
_NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "first_steps.ipynb"


def readme() -> Any:
    """Build the README's first model; its data are independent."""
    import numpy as np
    import pymc as pm

    with pm.Model() as model:
        pm.MvNormal("x", mu=[0, 0], cov=[[1, 0.5], [0.5, 1]])
    return model, np.random.default_rng(0).normal(size=(300, 2))


def eight_schools() -> Any:
    """Build the centred model of the eight schools."""
    import pymc as pm

    effects = [28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0]
    errors = [15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0]
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta = pm.Normal("theta", mu, tau, shape=8)
        pm.Normal("y", theta, errors, observed=effects)
    return model, None


def lkj_covariance() -> Any:
    """Build a normal model with unknown covariance."""
    import numpy as np
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=3)
        factor, _, _ = pm.LKJCholeskyCov(
            "factor", n=3, eta=2.0, sd_dist=pm.HalfNormal.dist(2.0, shape=3)
        )
        data = np.random.default_rng(0).normal(size=(60, 3))
        pm.MvNormal("y", mu, chol=factor, observed=data)
    return model, None


def gaussian_process() -> Any:
    """Build a regression with a Gaussian process."""
    import numpy as np
    import pymc as pm

    x = np.linspace(0, 5, 40)
    y = np.sin(x) + 0.1 * np.random.default_rng(0).normal(size=40)
    with pm.Model() as model:
        length = pm.Gamma("length", 2.0, 1.0)
        height = pm.HalfNormal("height", 2.0)
        noise = pm.HalfNormal("noise", 1.0)
        process = pm.gp.Marginal(cov_func=height**2 * pm.gp.cov.ExpQuad(1, length))
        process.marginal_likelihood("y", X=x[:, None], y=y, sigma=noise)
    return model, None


def hundred_groups() -> Any:
    """Build a regression whose intercepts and slopes vary over a hundred groups."""
    import numpy as np
    import pymc as pm

    rng = np.random.default_rng(0)
    group, x = rng.integers(100, size=1_000), rng.normal(size=1_000)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 1, shape=2)
        tau = pm.HalfNormal("tau", 1, shape=2)
        offsets = pm.Normal("offsets", 0, 1, shape=(100, 2))
        effects = mu + tau * offsets
        noise = pm.HalfNormal("noise", 1)
        mean = effects[group, 0] + effects[group, 1] * x
        pm.Normal("y", mean, noise, observed=x + rng.normal(size=1_000))
    return model, None


MODELS: dict[str, Callable[[], Any]] = {
    "README": readme,
    "eight schools": eight_schools,
    "LKJ covariance": lkj_covariance,
    "Gaussian process": gaussian_process,
    "hundred groups": hundred_groups,
}


def save_draws(name: str, path: str) -> None:
    """Write 4 × 1,000 draws as a sampler stores them, from near where it starts."""
    import numpy as np
    import xarray as xr

    model, data = MODELS[name]()
    if data is not None:
        xr.Dataset({"x": (("row", "k"), data)}).to_netcdf(path, engine="h5netcdf")
        return
    wanted = {rv.name for rv in model.free_RVs}
    outputs = [value for value in model.unobserved_value_vars if value.name in wanted]
    constrain = model.compile_fn(outputs, inputs=model.value_vars, on_unused_input="ignore")
    rng, start = np.random.default_rng(0), model.initial_point()
    points = [
        constrain({key: value + 0.1 * rng.normal(size=value.shape) for key, value in start.items()})
        for _ in range(4_000)
    ]
    values = {}
    for output, arrays in zip(outputs, zip(*points, strict=True), strict=True):
        stacked = np.stack(arrays).reshape(4, 1_000, *np.shape(arrays[0]))
        rest = (f"{output.name}_dim_{axis}" for axis in range(stacked.ndim - 2))
        values[output.name] = (("chain", "draw", *rest), stacked)
    xr.Dataset(values).to_netcdf(path, engine="h5netcdf")


def run(name: str, what: str, path: str) -> Waiting:
    """Time this process."""
    times = {}
    start = time.perf_counter()
    import arviz  # noqa: F401  (as sampling does)
    import pymc as pm

    times["import pymc"] = time.perf_counter() - start
    if what == "ksd":
        start = time.perf_counter()
        import pymc_ksd

        times["import pymc_ksd"] = time.perf_counter() - start
    start = time.perf_counter()
    model, data = MODELS[name]()
    times["model"] = time.perf_counter() - start
    if data is None:
        import xarray as xr

        data = xr.load_dataset(path, engine="h5netcdf")
        xr.Dataset({"x": ("draw", [0.0])})  # imports Dask if it is there, as storing draws does
    start = time.perf_counter()
    if what == "ksd":
        pymc_ksd.ksd_test(model, data, random_seed=0, progressbar=False)
        times["answer"] = time.perf_counter() - start
        start = time.perf_counter()
        pymc_ksd.ksd_test(model, data, random_seed=1, progressbar=False)
        times["second answer"] = time.perf_counter() - start
    else:
        function = model.logp_dlogp_function(ravel_inputs=True)
        function.set_extra_values({})
        function(pm.blocking.DictToArrayBijection.map(model.initial_point()))
        times["answer"] = time.perf_counter() - start
    return times


def save_stored_draws(name: str, path: str) -> None:
    """Write 4 × 1,000 draws of nutpie with the gradients it has stored."""
    import nutpie
    import xarray as xr
    from arviz_base import convert_to_datatree

    model, _ = MODELS[name]()
    options = {"store_gradient": True, "store_unconstrained": True, "progress_bar": False}
    compiled = nutpie.compile_pymc_model(model)
    draws = nutpie.sample(compiled, draws=1_000, tune=500, chains=4, seed=1, **options)
    tree = draws if isinstance(draws, xr.DataTree) else convert_to_datatree(draws)
    groups = {
        group: tree[group].to_dataset()
        for group in ("posterior", "unconstrained_posterior")
        if group in tree.children
    }
    wanted = ["logp", "gradient", "unconstrained_draw"]
    groups["sample_stats"] = tree["sample_stats"].to_dataset()[wanted]
    xr.DataTree.from_dict(groups).to_netcdf(path, engine="h5netcdf")


def run_stored(name: str, what: str, path: str) -> Waiting:
    """Time this process, whose draws have gradients; nothing but the answer is timed."""
    import arviz  # noqa: F401
    import nutpie  # noqa: F401  (as sampling does)
    import xarray as xr

    import pymc_ksd

    name_of_function, _, step = what.partition("/")
    function = getattr(pymc_ksd, name_of_function)
    if name == "kernels":  # of another density, so that their machine code is there
        import numpy as np

        normal = {"function": lambda x: -x, "log_density": lambda x: -(x**2).sum(axis=1) / 2}
        score = pymc_ksd.Score.from_callable(dim=10, **normal)
        values = np.random.default_rng(0).normal(size=(4, 1_000, 10))
        function(score, xr.Dataset({"x": (("chain", "draw", "k"), values)}), progressbar=False)
        return {}
    model, _ = MODELS[name]()
    data = xr.open_datatree(path, engine="h5netcdf").load()
    data = data.isel(draw=slice(None, None, int(step or 1)))
    times = {}
    for label in ("answer", "second answer"):
        start, busy = time.perf_counter(), time.process_time()
        result = function(model, data, progressbar=False)
        times[label] = time.perf_counter() - start
        times[f"{label}, processor"] = time.process_time() - busy
    if result.attrs["scores"] != "stored":
        raise RuntimeError("The stored gradients were not used.")
    return times


def measure_stored(name: str, what: str) -> dict[str, Waiting]:
    """Return the times of an answer from stored gradients, ``"ksd_test/4"`` of every fourth draw.

    *cold*: with nothing compiled; *kernels*: with the machine code of kernels, the same for all
    models, and nothing of this one.
    """
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        draws = str(Path(folder) / "draws.nc")
        _process(Path(folder) / "of draws", "stored", name, "draws", draws)
        for state in ("cold", "kernels"):
            compiled = Path(folder) / state
            if state == "kernels":
                _process(compiled, "stored", "kernels", what, draws)
            printed = _process(compiled, "stored", name, what, draws)
            found[state] = json.loads(printed.splitlines()[-1])
    return found


def stored_table() -> str:
    """Measure the first answers from stored gradients, and write them down as a table."""
    lines = [
        "| model | function | nothing compiled | kernels compiled before | next |",
        "|---|---|---|---|---|",
    ]
    for name in ("eight schools", "LKJ covariance"):
        for what in ("ksd_moments", "ksd_test/4", "ksd_test"):  # of 1,000 draws, the second
            times = measure_stored(name, what)
            shown = [
                f"{one[label]:.2f} s ({one[f'{label}, processor']:.2f} s)"
                for one, label in (
                    (times["cold"], "answer"),
                    (times["kernels"], "answer"),
                    (times["kernels"], "second answer"),
                )
            ]
            function, _, step = what.partition("/")
            draws = f"4 × {1_000 // int(step or 1):,}"
            lines.append(f"| {name} | `{function}`, {draws} draws | {' | '.join(shown)} |")
    return "\n".join(lines)


def run_notebook() -> Waiting:
    """Time the code of the first notebook, cell by cell, in this process."""
    import matplotlib as mpl

    mpl.use("Agg")
    cells = json.loads(_NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    codes = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    start = time.perf_counter()
    import arviz  # noqa: F401
    import pymc  # noqa: F401

    times = {"imports": time.perf_counter() - start}
    start, names = time.perf_counter(), {"__name__": "__main__"}
    for code in codes:
        exec(code, names)
        times.setdefault("first answer", time.perf_counter() - start)
    times["answer"] = time.perf_counter() - start
    return times


def measure(name: str, what: str, repeats: int = 2) -> tuple[Waiting, Waiting]:
    """Return the times of a process that finds nothing compiled, and the best of later ones."""
    with tempfile.TemporaryDirectory() as folder:
        draws = str(Path(folder) / "draws.nc")
        # What this compiles must not help those that are timed.
        _process(Path(folder) / "of draws", name, "draws", draws)
        return _cold_and_warm(Path(folder), repeats, name, what, draws)


def measure_notebook(repeats: int = 2) -> tuple[Waiting, Waiting]:
    """Return the same for the first notebook."""
    with tempfile.TemporaryDirectory() as folder:
        return _cold_and_warm(Path(folder), repeats, "notebook")


def _cold_and_warm(folder: Path, repeats: int, *arguments: str) -> tuple[Waiting, Waiting]:
    runs = [
        json.loads(_process(folder / "timed", *arguments).splitlines()[-1])
        for _ in range(1 + repeats)
    ]
    return runs[0], min(runs[1:], key=lambda times: times["answer"])


def _process(compiled: Path, *arguments: str) -> str:
    """Run this module in a fresh process whose compiled code is in a folder."""
    environment = {
        **os.environ,
        "PYTENSOR_FLAGS": f"base_compiledir={compiled / 'pytensor'}",
        "NUMBA_CACHE_DIR": str(compiled / "numba"),
    }
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.first_answer", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return done.stdout


if __name__ == "__main__":
    if sys.argv[1] == "notebook":
        print(json.dumps(run_notebook()))
    elif sys.argv[1:] == ["stored"]:
        print(stored_table())
    elif sys.argv[1] == "stored":
        _, _, model_name, function_name, file = sys.argv
        if function_name == "draws":
            save_stored_draws(model_name, file)
        else:
            print(json.dumps(run_stored(model_name, function_name, file)))
    elif sys.argv[2] == "draws":
        save_draws(sys.argv[1], sys.argv[3])
    else:
        print(json.dumps(run(*sys.argv[1:])))
