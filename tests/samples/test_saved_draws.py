"""Draws saved by one stack are read by the other, and mean the same there."""

from pathlib import Path

import arviz as az
import numpy as np
import pytest
import xarray as xr
from data.save_draws import model as saved_model

from pymc_ksd import compile_score, ksd, ksd_summary, ksd_test

FILES = sorted((Path(__file__).parents[1] / "data").glob("draws_*.nc"))
READERS = {
    "arviz": lambda path: az.from_netcdf(str(path)),
    "xarray": lambda path: xr.open_datatree(path, engine="h5netcdf"),
}


@pytest.fixture(scope="module")
def score():
    return compile_score(saved_model())


def test_both_stacks_have_saved_draws():
    assert [path.stem for path in FILES] == ["draws_pymc5", "draws_pymc6"]


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_draws_of_either_stack_measure_the_same_in_both(score, path, reader):
    draws = READERS[reader](path)
    posterior = draws["posterior"]
    assert dict(posterior.sizes) == {"chain": 2, "draw": 100, "group": 3}
    assert dict(draws["warmup_posterior"].sizes)["draw"] == 60
    result = ksd(score, draws)
    assert result.attrs["n"] == 200
    # What the stack that drew them found.
    np.testing.assert_allclose(result["ksd"], posterior.attrs["ksd"], rtol=1e-8)
    np.testing.assert_allclose(result["ess_ksd"], posterior.attrs["ess_ksd"], rtol=1e-8)
    assert ksd_test(score, draws, random_seed=0)["p_value"] > 0.01
    assert "mu[a]" in ksd_summary(score, draws).index
