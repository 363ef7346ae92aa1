"""Samplers beside each other: what stands in a row, and in which order rows come."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import DrawsWarning, Score, ksd_compare, ksd_moments, ksd_test, with_gradients

SCORE = Score.from_callable(lambda x: -x, 2, log_density=lambda x: -0.5 * (x**2).sum(axis=1))


def draws(rng, n_draws=250, shift=0.0, scale=1.0, chains=4, seconds=None):
    """Independent normal draws of two coordinates, of which the second is wrong."""
    values = rng.normal(size=(chains, n_draws, 2))
    values[..., 1] = values[..., 1] * scale + shift
    found = xr.Dataset({"x": (("chain", "draw", "k"), values)})
    return found if seconds is None else found.assign_attrs(sampling_time=seconds)


def apart(rng):
    """Chains that disagree, and together are a sample of the right distribution."""
    values = np.sort(rng.normal(size=(1_000, 2)), axis=0).reshape(4, 250, 2)
    return xr.Dataset({"x": (("chain", "draw", "k"), values)})


@pytest.mark.slow
@pytest.mark.newer_stack
def test_rows_are_ranked_by_status_and_worth(rng):
    table = ksd_compare(
        SCORE,
        {
            "nothing": xr.Dataset({"y": (("chain", "draw"), np.zeros((2, 30)))}),
            "far off": draws(rng, shift=0.6),
            "few": draws(rng, 50),
            "off": draws(rng, shift=0.25),
            "apart": apart(rng),
            "many": draws(rng, 500),
        },
        random_seed=1,
    )
    assert list(table.index) == ["many", "few", "apart", "off", "far off", "nothing"]
    assert list(table["rank"]) == list(range(6))
    statuses = ["passed", "passed", "cannot tell", "rejected", "rejected", "not tested"]
    assert list(table["status"]) == statuses
    assert list(table["n"]) == [2_000, 200, 1_000, 1_000, 1_000, 0]
    assert "The chains disagree" in table.loc["apart", "reason"]
    assert "lacks the variable(s) x" in table.loc["nothing", "reason"]
    assert table["reason"].iloc[[0, 1, 3, 4]].eq("").all()
    assert table.attrs["result"] == "ksd_compare"
    assert table.attrs["seed"] == 1
    assert pm.ksd_compare is ksd_compare


def test_draws_worth_as_much_are_ranked_by_their_errors():
    from pymc_ksd.diagnostics.judged import Judged

    same = {"status": "passed", "n": 100}
    by_chance = Judged(ess_ksd=250.0, bias_mean=0.1, bias_sd=-0.3, **same)
    better = Judged(ess_ksd=120.0, bias_mean=-0.2, bias_sd=np.nan, **same)
    less = Judged(ess_ksd=90.0, bias_mean=0.0, bias_sd=0.0, **same)
    assert sorted([less, by_chance, better], key=Judged.order) == [better, by_chance, less]
    unknown = Judged("passed", n=100)
    assert sorted([unknown, less], key=Judged.order) == [less, unknown]


def test_numbers_are_those_of_the_single_functions(rng):
    one = draws(rng, shift=0.3, scale=0.8)
    row = ksd_compare(SCORE, {"one": one, "other": draws(rng)}, random_seed=3).loc["one"]
    test = ksd_test(SCORE, one, random_seed=3)
    moments = ksd_moments(SCORE, one)
    assert row["p_value"] == float(test["p_value"])
    assert row["ess_ksd"] == pytest.approx(float(test["ess_ksd"]))
    for what in ("mean", "sd"):
        own = moments["x"].sel(diagnostic=f"bias_{what}").values
        assert row[f"bias_{what}"] == own[np.abs(own).argmax()]
        assert row[f"bias_{what}_of"] == "x[1]"
    # By closed form, a mean 0.3 too high and a standard deviation a fifth too small.
    assert row["bias_mean"] == pytest.approx(0.3, abs=0.06)
    assert row["bias_sd"] == pytest.approx(-0.2, abs=0.05)


def test_errors_too_large_to_be_measured_are_infinite(rng):
    row = ksd_compare(SCORE, {"far": draws(rng, shift=5.0)}, random_seed=1).loc["far"]
    assert row["bias_mean"] == np.inf
    assert row["bias_mean_of"] == "x[1]"
    assert row["status"] == "rejected"


def test_a_second_of_sampling_is_worth_draws_where_times_are_stored(rng):
    statistics = xr.Dataset({"lp": (("chain", "draw"), np.zeros((4, 250)))})
    timed = draws(rng)
    samplers = {
        "in the posterior": draws(rng, seconds=2.0),
        "in the statistics": xr.DataTree.from_dict(
            {"posterior": timed, "sample_stats": statistics.assign_attrs(sampling_time=0.5)}
        ),
        "none": draws(rng),
        "nonsense": draws(rng, seconds="soon"),
    }
    table = ksd_compare(SCORE, samplers, random_seed=1)
    for name, seconds in {"in the posterior": 2.0, "in the statistics": 0.5}.items():
        row = table.loc[name]
        assert row["sampling_time"] == seconds
        # Draws that look better than exact ones are worth no more than their number.
        assert row["ess_per_second"] == min(row["ess_ksd"], 1_000) / seconds
    unknown = table.loc[["none", "nonsense"], ["sampling_time", "ess_per_second"]]
    assert np.isnan(unknown.to_numpy()).all()


def test_the_model_is_prepared_once_for_all(rng, count_compilations):
    def model():
        with pm.Model() as found:
            pm.Gamma("rate", 2.0, 1.0)
        return found

    def exact():
        return xr.Dataset({"rate": (("chain", "draw"), rng.gamma(2.0, size=(4, 100)))})

    options = {"random_seed": 1}
    ksd_compare(model(), {"one": exact()}, **options)
    count_compilations.clear()
    ksd_compare(model(), {"one": exact()}, **options)
    alone = len(count_compilations)
    assert alone > 0
    count_compilations.clear()
    ksd_compare(model(), {name: exact() for name in "abc"}, **options)
    assert len(count_compilations) == alone


def test_no_gradient_is_built_where_all_draws_have_theirs(rng, monkeypatch):
    def fail(*args):
        raise AssertionError("the model's gradient was built")

    monkeypatch.setattr("pymc_ksd.models.free_variables._gradient", fail)
    with pm.Model() as model:
        pm.Normal("mu")
    values = rng.normal(size=(4, 100))
    draws = xr.Dataset({"mu": (("chain", "draw"), values)})
    stored = with_gradients(draws, {"mu": -values}, log_density=-(values**2) / 2)
    table = ksd_compare(model, {"one": stored, "other": stored}, random_seed=1)
    assert set(table["status"]) == {"passed"}
    with pytest.raises(AssertionError, match="was built"):
        ksd_compare(model, {"one": stored, "other": draws}, random_seed=1)


def test_many_draws_are_thinned_and_rows_do_not_depend_on_others(rng):
    one, many = draws(rng), draws(rng, 1_000)
    both = ksd_compare(SCORE, {"one": one, "many": many}, max_draws=1_000, random_seed=1)
    assert list(both["n"]) == [1_000, 1_000]
    alone = ksd_compare(SCORE, {"one": one}, max_draws=1_000, random_seed=1)
    pd.testing.assert_series_equal(
        alone.loc["one"].drop("rank"), both.loc["one"].drop("rank"), check_names=False
    )


def test_a_generator_gives_every_row_the_same_seed(rng):
    one = draws(rng)
    samplers = {"a": one, "b": one}
    table = ksd_compare(SCORE, samplers, random_seed=np.random.default_rng(4))
    assert table.loc["a", "p_value"] == table.loc["b", "p_value"]


def test_draws_of_another_model_are_told_apart(rng):
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Deterministic("twice", 2 * mu)
    values = rng.normal(size=(4, 250))
    own, other = (
        xr.Dataset({"mu": (("chain", "draw"), values), "twice": (("chain", "draw"), k * values)})
        for k in (2, 3)
    )
    table = ksd_compare(model, {"other": other, "own": own}, random_seed=1)
    assert list(table.index) == ["own", "other"]
    assert table.loc["other", "status"] == "cannot tell"
    assert "do not belong together" in table.loc["other", "reason"]


def test_warnings_name_the_sampler(rng):
    with pytest.warns(DrawsWarning, match="^short: Only 10 draws in each chain") as caught:
        ksd_compare(SCORE, {"short": draws(rng, 10), "long": draws(rng)}, random_seed=1)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (None, TypeError, "`data` must be a mapping from the names of samplers.*got NoneType"),
        ([1], TypeError, "got list"),
        (xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))}), TypeError, "got Dataset"),
        ({}, ValueError, "at least one sampler, got none"),
        ({1: None, "1": None}, ValueError, "must have names that differ as text, .* called '1'"),
    ],
)
def test_data_must_name_samplers(data, kind, message):
    with pytest.raises(kind, match=message):
        ksd_compare(SCORE, data)


def test_a_model_that_cannot_be_scored_is_an_error():
    with pm.Model() as model:
        pm.Poisson("count", 3.0)
    with pytest.raises(ValueError, match="discrete"):
        ksd_compare(model, {"one": xr.Dataset({"count": (("chain", "draw"), np.ones((2, 30)))})})


def test_parts_of_the_package_are_exported():
    assert {"ksd_compare", "plot_ksd_compare", "battery"} <= set(pymc_ksd.__all__)
