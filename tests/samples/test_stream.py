"""Draws that do not fit into memory give what they would if they did."""

import re
import tracemalloc
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import DrawsWarning, Score, ksd_test
from pymc_ksd.diagnostics.scoring import scaled_stream
from pymc_ksd.samples.stream import DrawStream, is_large

da = pytest.importorskip("dask.array")
INDEPENDENT = "ignore:.*takes the draws as independent"


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        pm.Normal("mu", 1e3, 2.0, shape=2)
        pm.HalfNormal("tau")
    return model


def draws(rng, n_draws):
    return xr.Dataset(
        {
            "mu": (("chain", "draw", "k"), rng.normal(1e3, 2.0, size=(3, n_draws, 2))),
            "tau": (("chain", "draw"), abs(rng.normal(size=(3, n_draws)))),
        }
    )


@pytest.fixture
def small_stretches(monkeypatch):
    monkeypatch.setattr("pymc_ksd.samples.stream._LARGE_NUMBERS", 1_000)
    monkeypatch.setattr("pymc_ksd.samples.stream._STRETCH_NUMBERS", 900)


@pytest.mark.filterwarnings(INDEPENDENT)
@pytest.mark.parametrize("statistic", ["linear", "block"])
@pytest.mark.parametrize("scale", [None, "std", "cov"])
@pytest.mark.parametrize("n_draws", [400, 433])
def test_same_numbers_as_in_memory(rng, model, statistic, scale, n_draws, request):
    data = draws(rng, n_draws)
    options = {"statistic": statistic, "scale": scale, "bandwidth": 1.5, "random_seed": 0}
    whole = ksd_test(model, data, **options)
    request.getfixturevalue("small_stretches")
    stream = ksd_test(model, data, **options)
    np.testing.assert_allclose(stream["statistic"], whole["statistic"], rtol=1e-9)
    np.testing.assert_allclose(stream["p_value"], whole["p_value"], rtol=1e-9)
    assert stream.attrs["n"] == whole.attrs["n"] == 3 * n_draws


def test_stretches_are_whole_and_complete(rng, model, small_stretches):
    from pymc_ksd import compile_score

    data = draws(rng, 433)
    stretches = list(DrawStream(compile_score(model)._target, data).points(multiple=50))
    assert len(stretches) > 3
    assert all(len(part) % 50 == 0 for part in stretches[:-1])
    mu = data["mu"].transpose("draw", "chain", "k").values.reshape(-1, 2)
    np.testing.assert_array_equal(np.concatenate(stretches)[:, :2], mu)


@pytest.mark.filterwarnings(INDEPENDENT)
@pytest.mark.parametrize("store", ["dask", "zarr", "netcdf"])
def test_lazily_loaded_draws(rng, model, small_stretches, store, tmp_path, monkeypatch):
    data = draws(rng, 400)
    expected = ksd_test(model, data, statistic="linear", random_seed=0)
    if store == "dask":
        lazy = data.chunk(draw=50)
    elif store == "zarr":
        # Zarr says that two of its own ways to write metadata are not final yet.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data.chunk(draw=50).to_zarr(tmp_path / "draws.zarr")
            lazy = xr.open_zarr(tmp_path / "draws.zarr")
    else:
        data.to_netcdf(tmp_path / "draws.nc", engine="h5netcdf")
        lazy = xr.open_dataset(tmp_path / "draws.nc", engine="h5netcdf")
    longest = []
    original = xr.DataArray.values.fget

    def watched(array):
        longest.append(array.sizes.get("draw", 0))
        return original(array)

    monkeypatch.setattr(xr.DataArray, "values", property(watched, xr.DataArray.values.fset))
    with lazy:
        result = ksd_test(model, lazy, statistic="linear", random_seed=0)
    np.testing.assert_allclose(result["statistic"], expected["statistic"], rtol=1e-12)
    assert 0 < max(longest) < 400


@pytest.mark.filterwarnings(INDEPENDENT)
def test_bad_draws_are_named_by_their_own_place(rng, model, small_stretches):
    data = draws(rng, 400)
    data["tau"].values[1, 321] = np.nan
    with pytest.raises(ValueError, match=r"1 value\(s\) of 'tau' .* chain 1, draw 321"):
        ksd_test(model, data, statistic="linear")
    data = draws(rng, 400)
    data["mu"].values[..., 1] = 0.1  # not the mean of many such numbers, to the last digit
    with pytest.raises(ValueError, match=re.escape("all 1200 values of mu[1] are the same")):
        ksd_test(model, data, statistic="linear")


@pytest.mark.filterwarnings(INDEPENDENT)
def test_points_without_score_are_numbered_from_the_first_of_all(rng, small_stretches):
    def score(x):
        return np.where(x > 9, np.nan, -x)

    values = rng.normal(size=(2, 700))
    values[1, 650] = 10.0
    data = xr.Dataset({"x": (("chain", "draw"), values)})
    with pytest.raises(ValueError, match=r"1 of 1400 points have no finite score.*\(rows 1301\)"):
        ksd_test(Score.from_callable(score, 1), data, statistic="linear", scale="std")


@pytest.mark.filterwarnings(INDEPENDENT)
def test_unconstrained_values_of_other_draws_are_left_alone(rng, model, small_stretches):
    """As after thinning the posterior only."""
    data = draws(rng, 800)
    other = xr.Dataset({"tau_log__": np.log(data["tau"])})
    thinned = xr.DataTree.from_dict(
        {"posterior": data.isel(draw=slice(None, None, 2)), "unconstrained_posterior": other}
    )
    result = ksd_test(model, thinned, statistic="linear", random_seed=0)
    expected = ksd_test(model, thinned["posterior"].to_dataset(), statistic="linear", random_seed=0)
    np.testing.assert_array_equal(result["statistic"], expected["statistic"])
    without = xr.DataTree.from_dict(
        {
            "posterior": data[["mu"]].isel(draw=slice(None, None, 2)),
            "unconstrained_posterior": other,
        }
    )
    with pytest.raises(ValueError, match="lacks the variable"):
        ksd_test(model, without, statistic="linear")


@pytest.mark.filterwarnings(INDEPENDENT)
def test_pieces_of_dask_are_read_twice(rng, small_stretches):
    reads = []

    def piece(block_info=None):
        reads.append(block_info)
        return rng.normal(size=(1, 600))

    values = da.map_blocks(piece, chunks=((1, 1), (600, 600)), dtype=float, meta=np.empty((0, 0)))
    with pm.Model() as model:
        pm.Normal("x")
    data = xr.Dataset({"x": (("chain", "draw"), values)})
    reads.clear()
    ksd_test(model, data, statistic="linear")
    assert len(reads) == 2 * 4  # four pieces


def test_small_draws_are_held(rng, model):
    from pymc_ksd import compile_score

    assert not is_large(compile_score(model)._target, draws(rng, 400))


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings(INDEPENDENT)
def test_ten_million_draws_without_holding_them():
    dim, n = 5, 10_000_000
    with pm.Model() as model:
        pm.Normal("x", shape=dim)
    values = da.random.default_rng(0).normal(size=(4, n // 4, dim), chunks=(1, 100_000, dim))
    data = xr.Dataset({"x": (("chain", "draw", "k"), values)})
    ksd_test(model, data.isel(draw=slice(1_000)), statistic="linear")  # imports and compilation
    tracemalloc.start()
    try:
        result = ksd_test(model, data, statistic="linear", progressbar=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # All draws would take 400 MB, and their scores as much; the statistic's terms take 40.
    assert peak < 250 * 2**20
    assert float(result["p_value"]) > 1e-4


def apart(rng):
    """Draws of the right distribution as a whole, a third of it in each chain."""
    data = draws(rng, 400)
    thirds = np.sort(data["tau"].values.ravel()).reshape(3, 400)
    data["tau"].values[:] = rng.permuted(thirds, axis=1)
    return data


def standing(rng):
    data = draws(rng, 400)
    data["tau"].values[:] = data["tau"].values[:, :1]
    return data


@pytest.mark.filterwarnings(INDEPENDENT)
@pytest.mark.parametrize("statistic", ["linear", "block"])
@pytest.mark.parametrize(
    ("bad", "reason"), [(apart, "The chains disagree"), (standing, "The chains do not move")]
)
def test_draws_that_are_no_sample_do_not_pass(rng, model, bad, reason, statistic, request):
    data = bad(rng)
    held = ksd_test(model, data, statistic=statistic, random_seed=0)
    request.getfixturevalue("small_stretches")
    streamed = ksd_test(model, data, statistic=statistic, random_seed=0)
    assert streamed.attrs["status"] == held.attrs["status"] == "cannot tell"
    assert streamed.attrs["reason"].startswith(reason)
    good = ksd_test(model, draws(rng, 400), statistic=statistic, random_seed=0)
    assert good.attrs["status"] == "passed"


@pytest.mark.filterwarnings(INDEPENDENT)
def test_draws_of_another_model_do_not_pass(rng, small_stretches):
    with pm.Model() as model:
        pm.Deterministic("twice", 2 * pm.Normal("x", 0, 1))
    values = rng.normal(size=(3, 400))
    data = xr.Dataset({"x": (("chain", "draw"), values), "twice": (("chain", "draw"), 2 * values)})
    assert ksd_test(model, data, statistic="linear", random_seed=0).attrs["status"] == "passed"
    with pytest.warns(DrawsWarning, match="'twice' in `data` is not"):
        other = ksd_test(model, data.assign(twice=data["x"]), statistic="linear", random_seed=0)
    assert other.attrs["status"] == "cannot tell"
    assert "belong together" in other.attrs["reason"]


def test_few_draws_of_every_chain_are_kept(rng, model, small_stretches, monkeypatch):
    from pymc_ksd import compile_score

    data = draws(rng, 433)
    for numbers, kept in [(1_000_000, 433), (9 * 150, 145), (9, 20)]:
        monkeypatch.setattr("pymc_ksd.diagnostics.scoring._THINNED_NUMBERS", numbers)
        stream = scaled_stream(DrawStream(compile_score(model)._target, data), None, False)
        step = -(-433 // kept)
        mu = data["mu"].values[:, ::step]
        np.testing.assert_array_equal(stream.sample.chains[..., :2], mu)
        assert stream.sample.n_draws <= kept
