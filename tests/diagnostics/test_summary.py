from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import Score, ksd, ksd_summary
from pymc_ksd.diagnostics.measured import Measured, measure
from pymc_ksd.diagnostics.prepare import comparing
from pymc_ksd.diagnostics.summary import _by_label, _numbers
from pymc_ksd.engine.walk import Effort


def container(posterior):
    """The container that this stack's ArviZ wants."""
    tree = xr.DataTree.from_dict({"posterior": posterior})
    if az.__version__.startswith("0."):
        return az.InferenceData(posterior=posterior)
    return tree


def test_ksd_summary_adds_columns_to_the_table_of_the_stack(labelled):
    model, posterior = labelled
    data = container(posterior)
    names = list(posterior.data_vars)
    table = ksd_summary(model, data, var_names=names, round_to="none")
    plain = az.summary(data, round_to="none")
    assert list(table.columns) == [*plain.columns, "ksd", "ess_ksd"]
    assert list(table.index) == list(plain.index)
    np.testing.assert_array_equal(table[plain.columns], plain)
    measures = ksd(model, data)
    for school in ("A", "B"):
        expected = measures["theta"].sel(school=school, diagnostic="ess_ksd")
        assert table.loc[f"theta[{school}]", "ess_ksd"] == float(expected)
    pooled = float(measures["weights"].sel(diagnostic="ksd"))
    assert [table.loc[f"weights[{i}]", "ksd"] for i in range(3)] == [pooled] * 3
    assert np.isnan(table.loc["shifted", "ksd"])


def test_ksd_summary_shows_free_variables_unless_others_are_asked_for(labelled, monkeypatch):
    model, posterior = labelled
    seen = []
    original = az.summary
    monkeypatch.setattr(az, "summary", lambda d, **k: seen.append(list(d)) or original(d, **k))
    table = ksd_summary(model, posterior)
    assert seen == [["mu", "tau", "theta", "weights"]]
    assert "shifted" not in table.index
    report = pymc_ksd.ksd_report(model, posterior, predictive=False, random_seed=0)
    assert list(report.summary.index) == list(table.index)
    with_shifted = ksd_summary(model, posterior, var_names=["mu", "shifted"])
    assert list(with_shifted.index) == ["mu", "shifted"]


def test_ksd_summary_of_elements_that_never_vary(rng):
    """As data that are not missing, which stand beside imputed ones; there is no noise."""
    with pm.Model() as model:
        pm.Normal("missing", shape=2)
    values = rng.normal(size=(2, 60, 2))
    full = np.concatenate([values, np.ones((2, 60, 3))], axis=2)
    draws = xr.Dataset({
        "missing": (("chain", "draw", "i"), values),
        "full": (("chain", "draw", "j"), full),
    })  # fmt: skip
    # Warnings are errors here.
    table = ksd_summary(model, draws, var_names=["missing", "full"])
    assert len(table) == 7
    assert np.isfinite(table.loc[["missing[0]", "missing[1]"], "ess_ksd"]).all()


def test_parts_that_rounding_takes_to_zero_or_below_are_quiet(rng):
    with pm.Model() as model:
        pm.Normal("x", shape=2)
    draws = xr.Dataset({"x": (("chain", "draw", "i"), rng.normal(size=(2, 60, 2)))})
    how = comparing("imq", "auto", "cov", None, draws=True)
    measured = measure(model, draws, how, Effort(), 0, coordinates=True)
    sums = replace(measured.sums, coordinates=np.array([-1e-18, 0.0]))
    # Warnings are errors here.
    found = Measured(measured.prepared, sums).distance()["x"].sel(diagnostic="ksd")
    np.testing.assert_array_equal(found, [np.nan, 0.0])


def test_ksd_summary_rows_follow_labels_not_positions(labelled):
    model, posterior = labelled
    table = ksd_summary(model, posterior, round_to="none")
    turned = ksd_summary(model, posterior.isel(school=[1, 0]), round_to="none")
    assert list(turned.index) != list(table.index)
    np.testing.assert_allclose(turned.loc[table.index, "ksd"], table["ksd"], rtol=1e-10)


def test_ksd_summary_with_a_dim_that_has_no_labels(rng):
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        model.add_coord("j", length=2)
        pm.Normal("t", dims=("k", "j"))
    values = rng.normal(size=(2, 60, 2, 2)) + np.array([[1.0, 0.0], [0.0, 0.0]])
    draws = xr.Dataset({"t": (("chain", "draw", "k", "j"), values)}, coords={"k": ["a", "b"]})
    table = ksd_summary(model, draws, round_to="none")
    turned = ksd_summary(model, draws.isel(k=[1, 0]), round_to="none")
    np.testing.assert_allclose(turned.loc[table.index, "ksd"], table["ksd"], rtol=1e-10)
    assert table["ksd"].idxmax() == "t[a, 0]"


def test_ksd_summary_of_labels_that_occur_twice(rng):
    with pm.Model(coords={"k": ["a", "a", "b"]}) as model:
        pm.Normal("t", dims="k")
    values = rng.normal([2.0, 0.0, 0.0], 1.0, size=(2, 60, 3))
    draws = xr.Dataset({"t": (("chain", "draw", "k"), values)}, coords={"k": ["a", "a", "b"]})
    measures = ksd(model, draws)
    numbers = measures["t"].sel(diagnostic="ksd").values
    rows = list(_by_label(_numbers(measures, draws, "ksd"), None).items())
    assert rows == [("t[a]", [numbers[0], numbers[1]]), ("t[b]", [numbers[2]])]
    axes = pymc_ksd.plot_ksd_contributions(measures, backend="matplotlib").get_target("ess", {})
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["t[a]", "t[a]", "t[b]"]


def test_ksd_summary_of_a_selection(labelled):
    model, posterior = labelled
    whole = ksd_summary(model, posterior, round_to="none")
    part = ksd_summary(
        model, posterior, var_names=["theta"], coords={"school": ["B"]}, round_to="none"
    )
    assert list(part.index) == ["theta[B]"]
    assert part["ksd"].item() == whole.loc["theta[B]", "ksd"]


def test_ksd_summary_rounds_as_it_is_told(labelled):
    model, posterior = labelled
    exact = ksd_summary(model, posterior, round_to="none").loc["tau"]
    usual = ksd_summary(model, posterior).loc["tau"]
    assert (usual["ksd"], usual["ess_ksd"]) == (round(exact["ksd"], 3), round(exact["ess_ksd"]))
    one = ksd_summary(model, posterior, round_to=1).loc["tau"]
    assert (one["ksd"], one["ess_ksd"]) == (round(exact["ksd"], 1), round(exact["ess_ksd"], 1))


def test_ksd_summary_passes_options_on(labelled):
    model, posterior = labelled
    few = ksd_summary(model, posterior, var_names="tau", kind="stats")
    assert list(few.index) == ["tau"]
    assert list(few.columns) == [*az.summary(posterior, kind="stats").columns, "ksd", "ess_ksd"]
    with pytest.raises(ValueError, match="`fmt` must be 'wide', got 'long'"):
        ksd_summary(model, posterior, fmt="long")
    with pytest.raises(ValueError, match="`group` must be 'posterior', got 'prior'"):
        ksd_summary(model, posterior, group="prior")


def test_ksd_summary_of_a_nameless_array(rng):
    score = Score.from_callable(lambda x: -x, 1)
    for name in (None, "other"):
        draws = xr.DataArray(rng.normal(size=(2, 100)), dims=("chain", "draw"), name=name)
        table = ksd_summary(score, draws)
        assert list(table.index) == ["x"]
        assert table.loc["x", "ess_ksd"] > 0
        assert ksd(score, draws)["x"].sel(diagnostic="ess_bulk") > 0
