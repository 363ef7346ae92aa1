import arviz as az
import numpy as np
import pytest
import xarray as xr

from pymc_ksd import Score, ksd, ksd_summary


def container(posterior):
    """The container that this stack's ArviZ wants."""
    tree = xr.DataTree.from_dict({"posterior": posterior})
    if az.__version__.startswith("0."):
        return az.InferenceData(posterior=posterior)
    return tree


def test_ksd_summary_adds_columns_to_the_table_of_the_stack(labelled):
    model, posterior = labelled
    data = container(posterior)
    table, plain = ksd_summary(model, data, round_to="none"), az.summary(data, round_to="none")
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


def test_ksd_summary_rows_follow_labels_not_positions(labelled):
    model, posterior = labelled
    table = ksd_summary(model, posterior, round_to="none")
    turned = ksd_summary(model, posterior.isel(school=[1, 0]), round_to="none")
    assert list(turned.index) != list(table.index)
    np.testing.assert_allclose(turned.loc[table.index, "ksd"], table["ksd"], rtol=1e-10)


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
    draws = xr.DataArray(rng.normal(size=(2, 100)), dims=("chain", "draw"))
    table = ksd_summary(Score.from_callable(lambda x: -x, 1), draws)
    assert list(table.index) == ["x"]
    assert table.loc["x", "ess_ksd"] > 0
