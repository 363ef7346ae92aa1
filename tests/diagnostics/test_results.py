from importlib.metadata import version

import arviz_base
import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import Score, ksd_test
from pymc_ksd.diagnostics.results import conclusion


@pytest.fixture(scope="module")
def result():
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        pm.Normal("x", dims="k")
        pm.Dirichlet("p", [1.0, 1.0])
    rng = np.random.default_rng(0)
    data = {"x": rng.normal(size=(60, 2)), "p": rng.dirichlet([1, 1], size=60)}
    return ksd_test(model, data, random_seed=4, scale="std", bandwidth=[0.5, 2.0])


def test_fields_and_attributes(result):
    scalars = {"statistic", "p_value", "critical_value", "ksd", "ess_ksd"}
    assert {name for name in result if not result[name].dims} == scalars | {"p"}
    assert result["null_distribution"].dims == ("bootstrap",)
    assert result.sizes["bootstrap"] == 1000
    attrs = result.attrs
    assert attrs["kernel"] == "RBF()"
    np.testing.assert_array_equal(attrs["bandwidth"], [0.5, 2.0])
    assert (attrs["scale"], attrs["statistic"], attrs["null"]) == ("std", "u", "rademacher")
    assert (attrs["alpha"], attrs["n"], attrs["dim"], attrs["seed"]) == (0.05, 60, 3, 4)
    for key in ("created_at", "inference_library_version", "pymc_version", "arviz_version"):
        assert attrs[key]


def test_result_survives_netcdf(result, tmp_path):
    result.to_netcdf(tmp_path / "result.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "result.nc", engine="h5netcdf") as loaded:
        xr.testing.assert_identical(loaded.load().drop_attrs(), result.drop_attrs())
        assert loaded.attrs["kernel"] == "RBF()"
        np.testing.assert_array_equal(loaded.attrs["bandwidth"], [0.5, 2.0])


def test_result_attaches_to_the_container_of_this_stack(result, tmp_path):
    """InferenceData where ArviZ has it, DataTree otherwise."""
    import arviz as az

    if version("arviz").startswith("0."):
        idata = az.from_dict({"mu": np.zeros((2, 5))})
        idata.add_groups(ksd=result)
        group = lambda container: container["ksd"]  # noqa: E731
    else:
        idata = az.from_dict({"posterior": {"mu": np.zeros((2, 5))}})
        idata["ksd"] = xr.DataTree(result)
        group = lambda container: container["ksd"].to_dataset()  # noqa: E731
    idata.to_netcdf(str(tmp_path / "idata.nc"), engine="h5netcdf")
    loaded = az.from_netcdf(str(tmp_path / "idata.nc"), engine="h5netcdf")
    assert group(loaded)["p_value"] == result["p_value"]
    np.testing.assert_array_equal(group(loaded)["x"], result["x"])
    assert group(loaded).attrs["kernel"] == "RBF()"


def test_result_attaches_to_a_datatree(result):
    tree = arviz_base.convert_to_datatree({"mu": np.zeros((2, 5))})
    tree["ksd"] = xr.DataTree(result)
    assert tree["ksd"]["p_value"] == result["p_value"]


def test_conclusion_says_what_was_found():
    score = Score.from_callable(lambda x: -x, 1)
    rng = np.random.default_rng(2)
    good = ksd_test(score, rng.normal(size=100), random_seed=0)
    bad = ksd_test(score, rng.normal(2, 1, size=100), random_seed=0, alpha=0.01)
    assert conclusion(good).startswith("Passed at level 0.05 (p = 0.")
    assert conclusion(bad).startswith("Rejected at level 0.01 (p = 0.001): the data do not")
