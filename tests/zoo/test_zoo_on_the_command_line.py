"""Exact and useless draws of models of the zoo, and models that are true, with their exit codes."""

import json

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd.report.command_line import main
from tests.zoo import models  # noqa: F401  registers them
from tests.zoo.draws import pymc_model
from tests.zoo.registry import ENTRIES

pytestmark = [pytest.mark.slow, pytest.mark.default_stack]
FILE = """\
from tests.zoo import models
from tests.zoo.draws import pymc_model
from tests.zoo.registry import ENTRIES

model = pymc_model(ENTRIES[{name!r}].build())
"""
MODELS = ["one_parameter", "one_parameter_per_observation", "gamma_poisson_per_observation"]


def saved(values, path):
    fields = {
        name: (("chain", "draw", *(f"{name}_dim_{axis}" for axis in range(array.ndim - 2))), array)
        for name, array in values.items()
    }
    xr.DataTree.from_dict({"posterior": xr.Dataset(fields)}).to_netcdf(path, engine="h5netcdf")


def prior(model, rng):
    values = pm.draw(model.free_RVs, 2_000, random_seed=rng)
    return {
        rv.name: value.reshape(4, 500, *value.shape[1:])
        for rv, value in zip(model.free_RVs, values, strict=True)
    }


@pytest.fixture(scope="module", params=MODELS)
def place(request, tmp_path_factory):
    """A folder with a model and draws of several kinds."""
    folder, entry = tmp_path_factory.mktemp(request.param), ENTRIES[request.param]
    (folder / "model.py").write_text(FILE.format(name=request.param))
    rng = np.random.default_rng(2)
    good = {name: np.asarray(value) for name, value in entry.exact(rng, 4, 500).items()}
    kinds = {
        "good": good,
        "prior": prior(pymc_model(entry.build()), rng),
        "frozen": {name: np.repeat(value[:, :1], 500, axis=1) for name, value in good.items()},
    }
    for kind, values in kinds.items():
        saved(values, folder / f"{kind}.nc")
    return folder


@pytest.mark.parametrize(("kind", "codes"), [("good", {0}), ("prior", {1, 2}), ("frozen", {2})])
def test_exit_codes_of_draws(place, kind, codes, capsys):
    arguments = [str(place / "model.py"), str(place / f"{kind}.nc")]
    code = main(["check", *arguments, "--json", "--alpha", "0.01", "--seed", "1"])
    assert code in codes
    found = json.loads(capsys.readouterr().out)
    assert found["status"] == ("passed", "rejected", "cannot tell")[code]


def test_true_models_with_a_parameter_for_every_observation_exit_with_zero(place, capsys):
    arguments = [str(place / "model.py"), str(place / "good.nc"), "--ppc", "--json"]
    assert main(["check", *arguments, "--alpha", "0.01", "--seed", "1"]) == 0
    checks = json.loads(capsys.readouterr().out)["predictive"]
    assert all(check["p_value"] > 0.01 for check in checks.values())
