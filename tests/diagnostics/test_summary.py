from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import Score, ksd, ksd_moments, ksd_summary
from pymc_ksd.diagnostics.measured import Measured, measure
from pymc_ksd.diagnostics.prepare import comparing
from pymc_ksd.diagnostics.summary import _by_label, _numbers
from pymc_ksd.engine.walk import Effort

ADDED = ["stein_mean", "stein_mcse", "bias_mean", "bias_sd", "p_value"]


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
    assert list(table.columns) == [*plain.columns, *ADDED]
    assert list(table.index) == list(plain.index)
    np.testing.assert_array_equal(table[plain.columns], plain)
    moments = ksd_moments(model, data, var_names=names)
    elements = {
        "theta[A]": moments["theta"].sel(school="A"),
        "theta[B]": moments["theta"].sel(school="B"),
        "weights[2]": moments["weights"].sel(part=2),
        "shifted": moments["shifted"],
    }
    for label, found in elements.items():
        own = found.sel(diagnostic=ADDED[:-1]).values
        np.testing.assert_array_equal(table.loc[label, ADDED[:-1]].to_numpy(dtype=float), own)
        smaller = min(float(found.sel(diagnostic=name)) for name in ("p_mean", "p_sd"))
        assert table.loc[label, "p_value"] == smaller
    # As ArviZ has them.
    ours = moments["theta"].sel(diagnostic=["mean", "sd"]).values
    np.testing.assert_allclose(ours, plain.loc[["theta[A]", "theta[B]"], ["mean", "sd"]])


def test_ksd_summary_finds_what_is_off_and_corrects_it(labelled, rng):
    model, posterior = labelled
    wrong = posterior.drop_vars("shifted").assign(mu=posterior["mu"] + 0.4)
    table = ksd_summary(model, wrong)
    assert list(table.index[table["p_value"] <= 0.05]) == ["mu"]
    bias = float(wrong["mu"].mean() - 0.15) / 0.5**0.5
    assert table.loc["mu", "bias_mean"] == pytest.approx(bias, abs=0.02)
    assert table.loc["mu", "stein_mean"] == pytest.approx(0.15, abs=0.01)
    assert table.loc["weights[0]", "stein_mean"] == pytest.approx(1 / 3, abs=0.01)


def test_ksd_summary_walks_no_pairs(labelled, monkeypatch):
    def walk(*args, **options):
        raise AssertionError("pairs were compared")

    monkeypatch.setattr("pymc_ksd.stats.statistics.evaluate_all_pairs", walk)
    assert len(ksd_summary(*labelled)) == 7


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
    turned = ksd_summary(model, posterior, var_names=["shifted", "mu"])
    assert list(turned.index) == ["shifted", "mu"]


@pytest.mark.parametrize(
    ("names", "filter_vars", "expected"),
    [
        ("~theta", None, ["mu", "tau", "weights[0]", "weights[1]", "weights[2]", "shifted"]),
        (["eta"], "like", ["theta[A]", "theta[B]"]),
        (["^t"], "regex", ["tau", "theta[A]", "theta[B]"]),
    ],
)
def test_ksd_summary_chooses_variables_as_arviz_does(names, filter_vars, expected, labelled):
    model, posterior = labelled
    table = ksd_summary(model, posterior, var_names=names, filter_vars=filter_vars)
    assert list(table.index) == expected
    assert table["p_value"].notna().all()


def test_ksd_summary_names_what_it_cannot_do(labelled, rng):
    model, posterior = labelled
    with pytest.raises(ValueError, match=r"must name numeric variables of `data`.*got gamma"):
        ksd_summary(model, posterior, var_names="gamma")
    with pytest.raises(ValueError, match="`order` must be 'auto', 1 or 2, got 3"):
        ksd_summary(model, posterior, order=3)
    with pm.Model() as circular:
        pm.VonMises("angle", 0.0, 2.0)
    angles = xr.Dataset({"angle": (("chain", "draw"), rng.vonmises(0.0, 2.0, size=(2, 100)))})
    with pytest.raises(ValueError, match=r"angle live on a circle.*cannot be corrected"):
        ksd_summary(circular, angles)
    with pm.Model() as discrete:
        pm.Poisson("count", 3.0)
    counts = xr.Dataset({"count": (("chain", "draw"), rng.poisson(3.0, size=(2, 100)))})
    with pytest.raises(ValueError, match="count"):
        ksd_summary(discrete, counts)


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
    assert np.isfinite(table.loc[["missing[0]", "missing[1]", "full[0]"], ADDED]).all(axis=None)
    constant = table.loc[["full[2]", "full[3]", "full[4]"]]
    assert constant[["stein_mean", "bias_mean", "p_value"]].isna().all(axis=None)


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
    np.testing.assert_allclose(turned.loc[table.index, ADDED], table[ADDED], rtol=1e-10)


def test_ksd_summary_with_a_dim_that_has_no_labels(rng):
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        model.add_coord("j", length=2)
        pm.Normal("t", dims=("k", "j"))
    values = rng.normal(size=(2, 60, 2, 2)) + np.array([[1.0, 0.0], [0.0, 0.0]])
    draws = xr.Dataset({"t": (("chain", "draw", "k", "j"), values)}, coords={"k": ["a", "b"]})
    table = ksd_summary(model, draws, round_to="none")
    turned = ksd_summary(model, draws.isel(k=[1, 0]), round_to="none")
    np.testing.assert_allclose(turned.loc[table.index, ADDED], table[ADDED], rtol=1e-10)
    assert table["bias_mean"].idxmax() == "t[a, 0]"


def test_ksd_summary_of_labels_that_occur_twice(rng):
    with pm.Model(coords={"k": ["a", "a", "b"]}) as model:
        pm.Normal("t", dims="k")
    values = rng.normal([0.5, 0.0, 0.0], 1.0, size=(2, 60, 3))
    draws = xr.Dataset({"t": (("chain", "draw", "k"), values)}, coords={"k": ["a", "a", "b"]})
    moments = ksd_moments(model, draws)
    numbers = moments["t"].sel(diagnostic="bias_mean").values
    rows = _by_label(_numbers(moments, draws), None)
    # After the standard deviation comes what is added.
    biases = [(label, [row[3] for row in found]) for label, found in rows.items()]
    assert biases == [("t[a]", [numbers[0], numbers[1]]), ("t[b]", [numbers[2]])]
    axes = pymc_ksd.plot_ksd_contributions(ksd(model, draws), backend="matplotlib")
    ticks = axes.get_target("ess", {}).get_yticklabels()
    assert [tick.get_text() for tick in ticks] == ["t[a]", "t[a]", "t[b]"]


def test_ksd_summary_of_dims_that_results_have(rng):
    with pm.Model(coords={"diagnostic": ["u", "v"], "column": range(2)}) as model:
        pm.Normal("t", dims=("diagnostic", "column"))
    values = rng.normal([[0.5, 0.0], [0.0, 0.0]], 1.0, size=(2, 100, 2, 2))
    draws = xr.Dataset(
        {"t": (("chain", "draw", "diagnostic", "column"), values)},
        coords={"diagnostic": ["u", "v"], "column": [0, 1]},
    )
    table = ksd_summary(model, draws)
    assert list(table.index) == ["t[u, 0]", "t[u, 1]", "t[v, 0]", "t[v, 1]"]
    assert table["bias_mean"].idxmax() == "t[u, 0]"


def test_ksd_summary_of_names_that_results_have(rng):
    names = ["p_value", "gain", "diagnostic", "level", "ksd"]
    with pm.Model() as model:
        for name in names:
            pm.Normal(name)
    values = {name: rng.normal(size=(2, 100)) for name in names}
    values["gain"] += 0.6
    draws = xr.Dataset({name: (("chain", "draw"), array) for name, array in values.items()})
    table = ksd_summary(model, draws)
    assert list(table.index) == names
    assert table["bias_mean"].idxmax() == "gain"
    moments = ksd_moments(model, draws)
    assert moments["gain"].shape == ()
    assert {"gain_moments", "level", "ksd"} <= set(moments)


def test_ksd_summary_of_a_selection(labelled):
    model, posterior = labelled
    whole = ksd_summary(model, posterior, var_names=["theta"], round_to="none")
    part = ksd_summary(
        model, posterior, var_names=["theta"], coords={"school": ["B"]}, round_to="none"
    )
    assert list(part.index) == ["theta[B]"]
    np.testing.assert_array_equal(part[ADDED], whole.loc[["theta[B]"], ADDED])


def test_ksd_summary_rounds_as_it_is_told(labelled):
    model, posterior = labelled
    exact = ksd_summary(model, posterior, round_to="none").loc["tau"]
    usual = ksd_summary(model, posterior).loc["tau"]
    # The standard error to two digits, and the mean as exactly.
    assert 0.01 < exact["stein_mcse"] < 0.1
    assert usual["stein_mcse"] == round(exact["stein_mcse"], 3)
    assert usual["stein_mean"] == round(exact["stein_mean"], 3)
    for column in ("bias_mean", "bias_sd", "p_value"):
        assert usual[column] == round(exact[column], 3)
    one = ksd_summary(model, posterior, round_to=1).loc["tau"]
    assert [one[column] for column in ADDED] == [round(exact[column], 1) for column in ADDED]
    if not az.__version__.startswith("0."):
        digits = ksd_summary(model, posterior, round_to="3g").loc["tau"]
        assert digits["stein_mean"] == float(f"{exact['stein_mean']:.3g}")


def test_ksd_summary_passes_options_on(labelled):
    model, posterior = labelled
    few = ksd_summary(model, posterior, var_names="tau", kind="stats")
    assert list(few.index) == ["tau"]
    assert list(few.columns) == [*az.summary(posterior, kind="stats").columns, *ADDED]
    diagnostics = ksd_summary(model, posterior, var_names="tau", kind="diagnostics")
    assert "mean" not in diagnostics
    assert diagnostics.loc["tau", "stein_mean"] == few.loc["tau", "stein_mean"]
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
        assert table.loc["x", "stein_mean"] == pytest.approx(0, abs=1e-4)
        assert ksd(score, draws)["x"].sel(diagnostic="ess_bulk") > 0
