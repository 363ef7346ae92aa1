"""Pictures of predictive checks: the data, what is expected, and marks where the check rejects."""

import re

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd.diagnostics.predictive.bins import Bins
from pymc_ksd.diagnostics.predictive.marks import marks, told_marks
from pymc_ksd.diagnostics.predictive.outcomes import Outcomes
from pymc_ksd.diagnostics.predictive.views import along_column, by_element, over_values
from pymc_ksd.diagnostics.predictive.where import Disagreement, stretches
from pymc_ksd.samples.covariates import Column

BACKENDS = ("none", "matplotlib", "bokeh", "plotly")


def draws(**values):
    return xr.Dataset({name: (("chain", "draw"), array[None]) for name, array in values.items()})


@pytest.fixture(scope="module")
def line():
    """A straight line whose data can be set; the slope is known all but exactly."""
    x = np.linspace(0, 10, 200)
    with pm.Model() as model:
        slope = pm.Normal("slope")
        outcome = pm.Data("outcome", np.zeros(200))
        pm.Normal("y", slope * pm.Data("dose", x), 1.0, observed=outcome)
    return model, draws(slope=np.random.default_rng(0).normal(1, 0.01, size=60)), x


def checked(line, y, seed=1):
    model, posterior, _ = line
    with model:
        pm.set_data({"outcome": y})
    return pymc_ksd.ksd_ppc(model, posterior, num_draws=40, random_seed=seed, progressbar=False)


@pytest.fixture(scope="module")
def bump(line):
    x = line[2]
    y = x + np.random.default_rng(1).normal(size=200) + 2.0 * ((x > 4) & (x < 6))
    return checked(line, y), y


def test_a_planted_misfit_is_marked_and_said(bump):
    check, _ = bump
    assert float(check["p_value"]) <= 0.05
    assert str(check["picture_along"].item()) == "dose"
    larger = [(start, stop) for start, stop, word in marks(check) if word == "larger"]
    assert any(start < 5.5 and stop > 4.5 for start, stop in larger)
    # Nothing is marked far from it.
    assert all(2.5 < start < stop < 7.5 for start, stop, _ in marks(check))
    assert any(
        text.startswith("y is larger than expected where dose is") for text in told_marks(check)
    )
    assert "y is larger than expected where dose is" in str(pymc_ksd.explain(check))


def test_marks_are_there_if_and_only_if_the_check_rejects(line):
    x, rejected = line[2], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        y = x + rng.normal(size=200) + (seed % 2) * np.where(x > 6, 0.9, 0.0)
        check = checked(line, y, seed)
        rejected.append(float(check["p_value"]) <= 0.05)
        assert bool(np.isfinite(check["marked_from"]).any()) == rejected[-1]
        drawn = pymc_ksd.plot_ksd_ppc(check, backend="none").viz.children
        assert ("marked_0" in drawn) == ("named_0" in drawn) == rejected[-1]
    assert set(rejected) == {True, False}


def test_picture_has_data_band_legend_and_names(line, bump):
    check, y = bump
    collection = pymc_ksd.plot_ksd_ppc(check, backend="matplotlib")
    axes = collection.get_target("y", {})
    np.testing.assert_allclose(
        collection.viz["observations"]["y"].item().get_offsets(), np.column_stack([line[2], y])
    )
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("dose", "y")
    assert axes.get_title() == "Rejected at level 0.05 (p = 0.024): the model does not fit y."
    (legend,) = collection.viz["figure"].item().legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told[:4] == [
        "95 % of replicated data",
        "their median",
        "observations",
        "contribute most",
    ]
    assert "larger than expected" in told
    # What is expected: the line, and two standard deviations on both sides.
    low, middle, high = check["picture_expected"].values.T
    at = check["picture_at"].values
    assert (at[0], at[-1]) == (0.0, 10.0)
    inner = slice(2, -2)
    assert np.abs(middle - at)[inner].max() < 0.5
    assert 3.4 < np.mean((high - low)[inner]) < 4.4
    # Named are observations of the bump, at their places.
    numbers = check["picture_name"].values.astype(int)
    np.testing.assert_allclose(check["picture_name_y"], y[numbers])
    np.testing.assert_allclose(check["picture_name_x"], line[2][numbers])


def test_every_part_can_be_switched_off(bump):
    check, _ = bump
    parts = ("marked", "band", "median", "observations", "observed", "named", "legend", "ticks")
    for backend in ("none", "plotly"):
        off = dict.fromkeys(parts, False)
        left = set(pymc_ksd.plot_ksd_ppc(check, backend=backend, visuals=off).viz.children)
        assert not {name.split("_")[0] for name in left} & set(parts)
    with pytest.raises(ValueError, match="version of ksd_ppc"):
        pymc_ksd.plot_ksd_ppc(check.drop_vars("picture_kind"))


@pytest.fixture(scope="module")
def kinds():
    """Outcomes of all kinds, none of which the model explains."""
    rng = np.random.default_rng(5)
    x = rng.normal(size=240)
    school = np.arange(240) % 4
    shift = np.array([0.0, 2.0, 0.0, 0.0])[school]
    with pm.Model(coords={"school": ["A", "B", "C", "D"], "colour": ["red", "blue", "grey"]}) as m:
        effect = pm.Data("effect", np.zeros(4), dims="school")
        pm.Normal("score", effect[school], 1.0, observed=shift + rng.normal(size=240))
        pm.Bernoulli(
            "passed", logit_p=pm.Data("dose", x), observed=rng.binomial(1, 1 / (1 + np.exp(2 * x)))
        )
        pm.Poisson("count", 4.0, observed=rng.poisson(6.0, size=240))
        pm.Multinomial("kind", 90, np.ones(3) / 3, observed=[50, 20, 20], dims="colour")
        pm.MvNormal(
            "pair",
            np.zeros(2),
            np.eye(2),
            observed=rng.multivariate_normal([0, 0], [[1, 0.9], [0.9, 1]], 150),
        )
        pm.GaussianRandomWalk(
            "walk",
            0.0,
            1.0,
            init_dist=pm.Normal.dist(),
            observed=np.cumsum(1.5 + rng.normal(size=100)),
        )
    return pymc_ksd.ksd_ppc(m, num_draws=40, random_seed=1, progressbar=False)


def shown(check, variable):
    one = check.sel(variable=variable)
    assert marks(one)
    return one, pymc_ksd.plot_ksd_ppc(check, variable=variable, backend="matplotlib")


def ticks(collection, variable):
    return [text.get_text() for text in collection.get_target(variable, {}).get_xticklabels()]


@pytest.mark.slow
def test_groups_have_their_names_and_the_wrong_one_is_marked(kinds):
    one, collection = shown(kinds, "score")
    assert ticks(collection, "score") == ["A", "B", "C", "D"]
    assert [(start, stop) for start, stop, _ in marks(one)] == [(0.5, 1.5)]
    assert told_marks(one) == ["score is larger than expected where school is B"]
    # The witness has the groups in the same places.
    lines = pymc_ksd.plot_ksd_witness(kinds, variable="score", backend="matplotlib")
    assert ticks(lines, "score") == ["A", "B", "C", "D"]


@pytest.mark.slow
def test_zeros_and_ones_are_shown_as_shares(kinds):
    one, collection = shown(kinds, "passed")
    share = one["picture_observed"].values[np.isfinite(one["picture_observed"].values)]
    assert share[0] > 0.8 > 0.2 > share[-1]
    assert collection.get_target("passed", {}).get_ylabel() == "passed, and its share of ones"
    words = [word for _, _, word in marks(one)]
    assert (words[0], words[-1]) == ("larger", "smaller")


@pytest.mark.slow
def test_counts_of_one_distribution_are_counted(kinds):
    one, collection = shown(kinds, "count")
    assert str(one["picture_kind"].item()) == "values"
    known = np.isfinite(one["picture_observed"].values)
    assert one["picture_observed"].values[known].sum() == 240
    assert {"3", "4", "5"} <= set(ticks(collection, "count"))
    assert any("more observations than expected where count is" in text for text in told_marks(one))


@pytest.mark.slow
def test_vectors_are_shown_by_element_or_by_pair(kinds):
    one, collection = shown(kinds, "kind")
    assert ticks(collection, "kind") == ["red", "blue", "grey"]
    assert "total of kind is larger than expected for red" in told_marks(one)
    one, collection = shown(kinds, "pair")
    assert ticks(collection, "pair") == ["0 and 1"]
    assert told_marks(one) == ["mean product of residuals is larger than expected for 0 and 1"]


@pytest.mark.slow
def test_changes_of_a_walk_are_called_so(kinds):
    one, _ = shown(kinds, "walk")
    assert "change of walk" in str(one["picture_along"].item()) + str(one["picture_outcome"].item())


@pytest.mark.slow
def test_results_of_several_variables_survive_a_file(kinds, tmp_path):
    kinds.to_netcdf(tmp_path / "kinds.nc")
    with xr.open_dataset(tmp_path / "kinds.nc") as loaded:
        xr.testing.assert_identical(loaded.load().drop_attrs(), kinds.drop_attrs())
        for name in kinds["variable"].values:
            for backend in BACKENDS:
                pymc_ksd.plot_ksd_ppc(loaded, variable=str(name), backend=backend)


def test_of_inputs_compared_together_the_one_that_is_wrong_is_shown():
    n = 150
    with pm.Model() as model:
        outcome, first = pm.Data("outcome", np.zeros(n)), pm.Data("first", np.zeros(n))
        second, shift = pm.Data("second", np.zeros(n)), pm.Normal("shift", 0, 0.01)
        pm.Normal("y", shift + first + 0.1 * second, 1.5, observed=outcome)
    for seed in (4, 11, 14):
        rng = np.random.default_rng(seed)
        x, z = rng.normal(size=n), rng.uniform(1, 20, size=n)
        y = x + 0.1 * z + 0.8 * (x**2 - 1) + rng.normal(size=n)
        with model:
            pm.set_data({"outcome": y, "first": x, "second": z})
        options = {"covariates": ["first", "second"], "num_draws": 40, "progressbar": False}
        posterior = draws(shift=rng.normal(0, 0.1, size=40))
        check = pymc_ksd.ksd_ppc(model, posterior, random_seed=seed, **options)
        assert str(check["picture_along"].item()) == "first"


def test_words_and_picture_name_the_same_observations():
    dates = np.arange("2020-01-01", "2020-04-10", dtype="datetime64[D]").astype("datetime64[ns]")
    x = np.linspace(-1, 1, 100)
    sales = x**2 + 0.1 * np.random.default_rng(3).normal(size=100)
    with pm.Model(coords={"date": dates}) as model:
        mu = pm.Normal("level") + pm.Data("price", x)
        pm.Normal("sales", mu, 0.3, observed=sales, dims="date")
    posterior = draws(level=np.random.default_rng(0).normal(0.3, 0.01, size=40))
    check = pymc_ksd.ksd_ppc(model, posterior, num_draws=40, random_seed=1, progressbar=False)
    named = [f"sales[{label}]" for label in check["picture_name"].values]
    assert all(re.fullmatch(r"sales\[2020-\d\d-\d\d\]", one) for one in named)
    words = str(pymc_ksd.explain(check))
    told = f"{', '.join(named[:-1])} and {named[-1]}. plot_ksd_ppc shows where."
    assert f"The observations that contribute most: {told}" in words
    # Where the picture names none, all labels are known nevertheless.
    without = check.assign(picture_name=check["picture_name"].copy(data=[""] * len(named)))
    words = str(pymc_ksd.explain(without))
    assert re.search(r"contribute most: sales\[2020-\d\d-\d\d\]", words)
    assert "shows where" not in words


def test_categories_without_an_order_are_told_by_their_shares():
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, size=240)
    brand = np.where(np.abs(x) > 1, 2, rng.integers(0, 2, size=240))
    rating = np.searchsorted([-1.0, 1.0], x + 0.3 * rng.normal(size=240))
    with pm.Model() as model:
        shares = np.full((240, 3), [0.25, 0.25, 0.5])
        pm.Categorical("brand", p=shares + 0 * pm.Data("x", x)[:, None], observed=brand)
        pm.Categorical("label", p=[0.6, 0.2, 0.2], observed=brand)
        for name, family in {"logit": pm.OrderedLogistic, "probit": pm.OrderedProbit}.items():
            cuts = np.array([-1.0, 1.0])
            family(name, eta=0 * x, cutpoints=cuts, observed=rating, compute_p=name == "logit")
    options = {"num_draws": 40, "random_seed": 1, "progressbar": False}
    check = pymc_ksd.ksd_ppc(model, covariates={**dict.fromkeys(["logit", "probit", "brand"], x),
                                                "label": None}, **options)  # fmt: skip
    one = check.sel(variable="brand")
    assert {word for *_, word in marks(one)} <= {"larger", "smaller", "different"}
    assert all(text.startswith("share of brand ") for text in told_marks(one))
    collection = pymc_ksd.plot_ksd_ppc(check, variable="brand", backend="matplotlib")
    assert collection.get_target("brand", {}).get_ylabel().startswith("share of brand ")
    expected = one["picture_expected"].values
    assert 0 < np.nanmin(expected) < np.nanmax(expected) < 1
    assert told_marks(check.sel(variable="label")) == [
        "number of outcomes is smaller than expected for label 0",
        "number of outcomes is larger than expected for label 2",
    ]
    for name in ("logit", "probit"):
        told = told_marks(check.sel(variable=name))
        assert any(text.startswith(f"{name} is larger than expected where") for text in told)


def test_what_is_expected_is_possible():
    """A line through the medians of a bin leads below zero where counts rise from it."""
    x, rng = np.sort(np.random.default_rng(1).uniform(-2, 2, size=200)), np.random.default_rng(2)
    rate = np.exp(2 * x - 1)
    outcomes = simulated(rng.poisson(rate), rng.poisson(rate, size=(100, 200)))
    view = along_column(Column("x", x), outcomes, ["y"], None, step_by_step=False)
    assert view.expected.min() == 0
    assert view.expected.max() <= outcomes.replicated.max()


def test_a_picture_of_one_group_says_so():
    rng = np.random.default_rng(1)
    x, group = np.tile(np.linspace(-2, 2, 20), 6), np.repeat(np.arange(6), 20)
    y = np.where(group == 3, 1.6 * x, 0.0) + rng.normal(size=120)
    with pm.Model(coords={"area": list("ABCDEF")}) as model:
        level = pm.Normal("level", dims="area")
        pm.Normal("y", level[group] + 0 * pm.Data("x", x), 1.15, observed=y)
    level = xr.Dataset({"level": (("chain", "draw", "area"), rng.normal(0, 0.2, (1, 40, 6)))})
    check = pymc_ksd.ksd_ppc(model, level, num_draws=40, random_seed=1, progressbar=False)
    assert str(check["picture_along"].item()) == "x in area D"
    assert "The observations that contribute most in area D: y[" in str(pymc_ksd.explain(check))
    (legend,) = pymc_ksd.plot_ksd_ppc(check, backend="matplotlib").viz["figure"].item().legends
    assert "contribute most here" in [text.get_text() for text in legend.get_texts()]


def test_of_many_observations_some_are_shown():
    rng = np.random.default_rng(2)
    with pm.Model() as model:
        pm.Normal("y", pm.Data("x", rng.normal(size=1_200)), observed=rng.normal(size=1_200))
    check = pymc_ksd.ksd_ppc(model, num_draws=20, random_seed=1, progressbar=False)
    assert check.sizes["picture_dot"] == 1_000
    assert check["y"].sizes["y_dim_0"] == 1_200


def test_places_are_held_against_replicates():
    replicated = np.random.default_rng(1).normal(size=(39, 6))
    observed = np.array([0.0, 0.0, 9.0, 8.0, 0.0, -9.0])
    found = Disagreement.of(observed, replicated)
    centre, spread = replicated.mean(axis=0), replicated.std(axis=0, ddof=1)
    np.testing.assert_allclose(found.excess, (observed - centre) / spread)
    furthest = np.sort(((replicated - centre) / spread * 39 / 38).max(axis=1))
    assert found.threshold == furthest[37]
    assert found.marked().tolist() == [False, False, True, True, False, False]
    assert found.marked(both_sides=True).tolist() == [False, False, True, True, False, True]
    # If nothing is beyond, the furthest is marked.
    quiet = Disagreement.of(centre + 0.1 * (np.arange(6) == 3), replicated)
    assert quiet.marked().tolist() == [False, False, False, True, False, False]


def test_stretches_join_neighbours_that_say_the_same():
    bins = Bins.along(np.repeat(np.arange(6.0), 10) * 10, 6)
    np.testing.assert_allclose(bins.edges, [-5, 5, 15, 25, 35, 45, 55])
    np.testing.assert_allclose(bins.places, np.arange(6) * 10)
    marked = np.array([True, True, True, False, True, True])
    found = stretches(bins, marked, ["larger", "different", "smaller", "", "wider", "wider"])
    assert [(one.start, one.stop, one.word) for one in found] == [
        (-5.0, 5.0, "larger"),
        (5.0, 15.0, "different"),
        (15.0, 25.0, "smaller"),
        (35.0, 55.0, "wider"),
    ]
    same = Bins.along(np.full(5, 3.0), 6)
    assert (same.places.tolist(), same.edges.tolist()) == ([3.0], [2.5, 3.5])
    many = Bins.along(np.arange(100.0), 4)
    np.testing.assert_allclose(many.edges, [0, 24.5, 49.5, 74.5, 99], atol=1.5)
    assert np.bincount(many.codes).min() >= 24
    few = Bins.along(np.array([0.0, 1.0, 1.0, 4.0]), 6)
    np.testing.assert_allclose(few.edges, [-0.5, 0.5, 2.5, 5.5])


def test_values_of_many_observations_are_not_added_up():
    """What is shifted up at one value and down at the next would cancel."""
    days = np.repeat([8.0, 15.0, 22.0], 20)
    rng = np.random.default_rng(2)
    outcomes = simulated(rng.normal(np.where(days == 15, 2.0, -2.0)), rng.normal(size=(50, 60)))
    added = (np.ones(60), rng.normal(size=(25, 60)))
    view = along_column(Column("day", days), outcomes, ["y"], added, step_by_step=False)
    assert [(one.start, one.stop, one.word) for one in view.marks] == [
        (4.5, 11.5, "smaller"),
        (11.5, 18.5, "larger"),
        (18.5, 25.5, "smaller"),
    ]
    bins = Bins.along(np.arange(60.0), 6)
    sums = bins.sums(np.ones(60))
    assert bins.of_neighbours(sums)[2] == sums[1:4].sum()


def test_of_few_observations_the_ends_are_not_the_middle():
    """The neighbours of the middle one of three bins are all the others."""
    for n in (20, 39, 59):
        x, rng = np.linspace(-1, 1, n), np.random.default_rng(n)
        is_end = np.abs(x) > 0.5
        outcomes = simulated(rng.normal(3 * np.sign(x) * is_end), rng.normal(size=(50, n)))
        added = (np.where(is_end, 2.0, 0.0), rng.normal(size=(25, n)))
        view = along_column(Column("x", x), outcomes, ["y"], added, step_by_step=False)
        assert [one.word for one in view.marks] == ["smaller", "larger"]
        assert view.marks[0].stop < 0 < view.marks[1].start


def test_few_places_have_each_their_own():
    feet = np.arange(2.0, 21.0)
    rng = np.random.default_rng(2)
    outcomes = simulated(1000 / feet, 1000 / feet + rng.normal(size=(50, 19)))
    view = along_column(Column("feet", feet), outcomes, ["y"], None, step_by_step=False)
    np.testing.assert_allclose(view.places[1:-1], feet)
    np.testing.assert_allclose(view.expected[1:-1, 1], 1000 / feet, atol=1)


def test_two_values_are_shown_as_groups():
    treated = np.repeat([0.0, 1.0], 20)
    rng = np.random.default_rng(2)
    outcomes = simulated(rng.normal(4 * treated - 2), rng.normal(size=(50, 40)))
    added = (np.ones(40), rng.normal(size=(25, 40)))
    view = along_column(Column("treated", treated), outcomes, ["y"], added, step_by_step=False)
    assert (view.kind, view.labels) == ("groups", ("0", "1"))
    assert [one.word for one in view.marks] == ["smaller", "larger"]


@pytest.mark.parametrize(
    ("x", "stretch", "told"),
    [
        (np.arange(1871.0, 1901.0), (1870.6, 1898.5), "1871 to 1898"),
        (np.array([8.0, 15.0]), (4.5, 11.5), "8"),
        (np.array([0.25, 0.5, 2.0]), (0.0, 1.0), "0.25 to 0.5"),
        (np.array([101.2101, 101.2402]), (101.0, 102.0), "101.21 to 101.24"),
        (np.array([2e-5, 7e6]), (0.0, 1e7), "0 to 7000000"),
        (np.array([20200101.0, 20200630.0]), (2e7, 3e7), "20200101 to 20200630"),
        (np.array([1999999.0, 2000001.0]), (1e6, 3e6), "1999999 to 2000001"),
        (np.array([2.00001e-4, 2.00002e-4]), (0.0, 1.0), "0.000200001 to 0.000200002"),
        (np.array([np.nan]), (-1.776, 0.0103), "-1.78 to 0.01"),
    ],
)
def test_stretches_are_told_as_people_write_numbers(bump, x, stretch, told):
    check, _ = bump
    check = check.drop_dims(["picture_dot", "marked"]).assign(
        picture_x=("picture_dot", x),
        marked_from=("marked", [stretch[0]]),
        marked_to=("marked", [stretch[1]]),
        marked_as=("marked", ["larger"]),
    )
    assert told_marks(check) == [f"y is larger than expected where dose is {told}"]


def test_a_legend_is_no_wider_than_its_figure(bump):
    check, _ = bump
    words = ["larger", "smaller", "wider", "narrower"]
    check = check.drop_dims("marked").assign(
        marked_from=("marked", [0.0, 2.0, 4.0, 6.0]),
        marked_to=("marked", [2.0, 4.0, 6.0, 8.0]),
        marked_as=("marked", words),
    )
    collection = pymc_ksd.plot_ksd_ppc(check, backend="matplotlib")
    figure = collection.viz["figure"].item()
    figure.canvas.draw()
    (legend,) = figure.legends
    assert legend.get_window_extent().x0 >= 0
    assert legend.get_window_extent().x1 <= figure.bbox.width
    assert len(legend.get_texts()) == 8


def simulated(observed, replicated):
    """Outcomes of which all observations are shown."""
    outcomes = Outcomes.of(observed, len(replicated), np.random.default_rng(0))
    for values in replicated:
        outcomes.add(values)
    return outcomes


def test_groups_and_shares_without_a_model():
    rng = np.random.default_rng(3)
    codes = np.repeat(np.arange(3.0), 40)
    share = np.where(codes == 1, 0.9, 0.2)
    outcomes = simulated(rng.binomial(1, share), rng.binomial(1, 0.2, size=(50, 120)))
    column = Column("school", codes, labels=True, names=("A", "B", "C"))
    added = (np.where(codes == 1, 5.0, 0.0), rng.normal(size=(25, 120)))
    view = along_column(column, outcomes, ["y"], added, step_by_step=False)
    assert (view.kind, view.labels, view.strength > 1) == ("groups", ("A", "B", "C"), True)
    assert [(one.start, one.stop, one.word) for one in view.marks] == [(0.5, 1.5, "larger")]
    observed = [outcomes.observed[codes == code].mean() for code in range(3)]
    np.testing.assert_allclose(view.observed, observed)
    shares = outcomes.replicated[:, codes == 1, 0].mean(axis=1)
    np.testing.assert_allclose(view.expected[1], np.quantile(shares, [0.025, 0.5, 0.975]))
    quiet = along_column(column, outcomes, ["y"], None, step_by_step=False)
    assert not quiet.marks


def test_the_element_that_is_shifted_is_shown():
    rng = np.random.default_rng(4)
    x = rng.uniform(size=200)
    outcomes = simulated(rng.normal([0, 2], size=(200, 2)), rng.normal(size=(50, 200, 2)))
    added = (np.ones(200), rng.normal(size=(25, 200)))
    view = along_column(Column("x", x), outcomes, ["v[a]", "v[b]"], added, step_by_step=False)
    assert view.outcome == "v[b]"
    assert {one.word for one in view.marks} == {"larger"}
    assert outcomes.furthest(1) == [1]


def test_values_beyond_what_is_expected_are_in_the_last_bins():
    rng = np.random.default_rng(5)
    observed = np.append(rng.normal(size=97), [30.0, 31.0, 32.0])[None]
    view = over_values("y", observed, rng.normal(size=(60, 100)), whole=False, is_marked=True)
    assert view.observed.sum() == 100
    assert view.observed[-1] == 3
    assert view.marks[-1].word == "more"
    assert view.strength > 1
    assert view.places[-1] < 6
    assert (view.marks[-1].start > 3, view.marks[-1].stop) == (True, 32.0)


def test_the_last_values_are_open(bump):
    rng = np.random.default_rng(5)
    replicated = rng.poisson(5.0, size=(60, 100))
    observed = np.append(rng.poisson(5.0, size=95), [17] * 2 + [30] * 3)[None]
    counts = over_values("y", observed, replicated, whole=True, is_marked=True)
    assert (counts.labels[0], counts.labels[-1]) == ("0", "14 or more")
    assert (counts.marks[-1].word, counts.marks[-1].stop) == ("more", 30.5)
    numbers = over_values("y", observed, 1.0 * replicated, whole=False, is_marked=True)
    check, _ = bump
    for view, told in ((counts, "y is 14 or more"), (numbers, r"y is \d+\.\d and above")):
        picture = view.dataset()
        own = check.drop_dims(picture.dims).drop_vars(picture.data_vars, errors="ignore")
        own = own.merge(picture)
        (more,) = [one for one in told_marks(own) if "more obs" in one]
        assert re.search(told + "$", more)
        collection = pymc_ksd.plot_ksd_ppc(own, backend="matplotlib")
        assert collection.get_target("y", {}).get_xlim()[1] < 20
        assert view is numbers or ticks(collection, "y")[-1] == "≥14"


def test_elements_are_marked_where_they_are_off():
    rng = np.random.default_rng(6)
    view = by_element(
        "element of v", "mean of v", "abc", np.array([0.0, -9, 0]), rng.normal(size=(60, 3)),
        is_marked=True,
    )  # fmt: skip
    assert [(one.start, one.stop, one.word) for one in view.marks] == [(0.5, 1.5, "smaller")]
    assert view.dataset()["picture_label"].values.tolist() == ["a", "b", "c"]
