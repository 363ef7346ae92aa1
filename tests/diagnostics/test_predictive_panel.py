"""Several kernels of residuals and covariates joined to one check, and parts of many data."""

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd.diagnostics.predictive.joined import Statistics
from pymc_ksd.diagnostics.predictive.parts import Parts

# Few draws make the tests short; the warning about them is tested elsewhere.
pytestmark = pytest.mark.filterwarnings("ignore:With .* draws no p-value is below")


@pytest.fixture(scope="module")
def curved():
    """A straight line fitted to a parabola, in towns that do not matter."""
    rng = np.random.default_rng(2)
    x, town = rng.uniform(-2, 2, size=150), rng.integers(3, size=150)
    y = 0.6 * x**2 + rng.normal(size=150)
    with pm.Model(coords={"town": ["a", "b", "c"]}) as model:
        dose = pm.Data("dose", x)
        level, slope = pm.Normal("level", 0, 10, dims="town"), pm.Normal("slope", 0, 10)
        pm.Normal("y", level[town] + slope * dose, 1.2, observed=y)
    fields = {
        "level": (("chain", "draw", "town"), rng.normal(y.mean(), 0.1, size=(1, 60, 3))),
        "slope": (("chain", "draw"), rng.normal(0, 0.1, size=(1, 60))),
    }
    return model, xr.Dataset(fields, coords={"town": ["a", "b", "c"]})


def test_members_have_names_and_bandwidths(curved):
    check = pymc_ksd.ksd_ppc(*curved, random_seed=1)
    kinds = ["residuals", "parameters", "inputs", "groups", "inputs within groups"]
    assert check["comparison"].values.tolist() == kinds
    assert check.attrs["compared_by"] == (
        "residuals; parameters: mu; inputs: dose; groups: town; inputs within groups: dose, town"
    )
    names = check["member"].values.tolist()
    assert names[:2] == ["residuals (rbf, 1)", "residuals (rbf, 2)"]
    assert "inputs (rbf, 2; 1/3 of the median)" in names
    assert "inputs within groups (rbf, 1; 1 of the median)" in names
    assert len(names) == len(set(names)) == 2 * (1 + 2 + 2 + 1 + 1)
    one = check.sel(member="parameters (rbf, 2; 1/3 of the median)")
    assert (float(one["member_bandwidth"]), float(one["member_width"])) == (2.0, 1 / 3)
    assert np.isnan(check["member_width"].sel(member="groups (rbf, 1)"))
    assert check["contributions_of"].item() == "inputs"
    assert check["contributions_member"].item().startswith("inputs (")
    np.testing.assert_allclose(check.attrs["bandwidth"], [1, 2])


def joined_terms(check, everyone, values):
    """What the joined test takes the largest of, member by member."""
    everyone, values = (
        (part - everyone.mean(axis=0)) / everyone.std(axis=0, ddof=1) for part in (everyone, values)
    )
    names = check["member"].values.tolist()
    terms = []
    for index, name in enumerate(names):
        width = float(check["member_width"][index])
        alone = names.index(f"residuals ({name.partition('(')[2].partition(';')[0].strip(')')})")
        left, own = values[:, index], everyone[:, index]
        if alone != index:
            shared = np.corrcoef(own, everyone[:, alone])[0, 1]
            left = left - 0.5 * shared * values[:, alone]
            own = own - 0.5 * shared * everyone[:, alone]
        terms.append((0.85 if width < 1 else 1.0) * left / own.std(ddof=1))
    return np.stack(terms, axis=1)


def test_p_values_join_the_largest_excess(curved):
    check = pymc_ksd.ksd_ppc(*curved, random_seed=1)
    observed, replicated = (check[f"{k}_statistic"].values for k in ("observed", "replicated"))
    data, others = (joined_terms(check, replicated, part) for part in (observed, replicated))
    np.testing.assert_allclose(check["observed"], data.max(axis=1), rtol=1e-8)
    np.testing.assert_allclose(check["replicated"], others.max(axis=1), rtol=1e-8)
    # That of each alone is in its own standard deviations, with nothing taken out.
    excess = ((observed - replicated.mean(axis=0)) / replicated.std(axis=0, ddof=1)).mean(axis=0)
    np.testing.assert_allclose(check["member_excess"], excess, rtol=1e-8)
    strongest = check["member"].values[np.argmax(excess)]
    assert check["contributions_member"].item() == strongest
    of = np.array([name.split(" (")[0] for name in check["member"].values])

    def p_value(data, others):
        larger = others.max(axis=1) >= data.max(axis=1)
        return (1 + larger.sum()) / (1 + len(larger))

    assert float(check["p_value"]) == pytest.approx(p_value(data, others))
    for name in check["comparison"].values:
        own = check.sel(comparison=name)
        expected = p_value(data[:, of == name], others[:, of == name])
        assert float(own["comparison_p_value"]) == pytest.approx(expected)
        assert float(own["comparison_excess"]) == pytest.approx(excess[of == name].max())
    for index, p in enumerate(check["member_p_value"].values):
        assert p == pytest.approx(p_value(observed[:, [index]], replicated[:, [index]]))


def test_members_by_covariates_do_not_repeat_what_residuals_alone_show():
    """Noise of residuals alone would hide a slope that is wrong."""
    rng = np.random.default_rng(4)
    names = ["residuals (rbf, 1)", "inputs (rbf, 1; 1 of the median)"]
    noise = rng.normal(size=(400, 2))
    replicated = noise @ np.array([[1.0, 0.9], [0.0, np.sqrt(1 - 0.9**2)]])
    # What the residuals show is below average, what they show by the input somewhat above it.
    observed = np.broadcast_to([-1.5, 1.0], (400, 2))
    statistics = Statistics(
        observed, replicated, names, ["residuals", "inputs"], [(0, 0), (0, 1)], [1, 1],
        [np.nan, 1.0], same_data=True,
    )  # fmt: skip
    check = statistics.dataset()
    assert float(check["p_value"]) <= 0.02
    assert float(check["member_p_value"].min()) > 0.1
    assert check["contributions_of"].item() == "inputs"


@pytest.mark.parametrize(("alone", "shows"), [(6.0, "inputs"), (7.0, "residuals")])
def test_residuals_alone_show_what_is_wrong_only_if_they_exceed_clearly_more(alone, shows):
    replicated = np.random.default_rng(5).normal(size=(400, 2))
    observed = np.broadcast_to([alone, 5.2], (400, 2))
    statistics = Statistics(
        observed, replicated, ["a", "b"], ["residuals", "inputs"], [(0, 0), (0, 1)], [1, 1],
        [np.nan, 1.0], same_data=False,
    )  # fmt: skip
    assert statistics.dataset()["contributions_of"].item() == shows


def test_residuals_that_do_not_vary_take_nothing_out():
    replicated = np.stack([np.zeros(50), np.arange(50.0)], axis=1)
    observed = np.broadcast_to([0.0, 100.0], (50, 2))
    statistics = Statistics(
        observed, replicated, ["a", "b"], ["residuals", "inputs"], [(0, 0), (0, 1)], [1, 1],
        [np.nan, 1.0], same_data=False,
    )  # fmt: skip
    for terms, excess in zip(statistics.terms, statistics.excess, strict=True):
        np.testing.assert_allclose(terms, excess)


@pytest.mark.parametrize(
    ("options", "widths"),
    [
        ({"kernel": "imq"}, [1.0]),
        ({"kernel": "rbf"}, [1.0]),
        ({"bandwidth": 1.5}, [1.5]),
        ({"bandwidth": "dimension"}, [1.0]),
        ({"bandwidth": [0.5, 3]}, [0.5, 3.0]),
        ({}, [1.0, 2.0]),
    ],
    ids=str,
)
def test_what_is_named_is_the_only_kernel_of_residuals(curved, options, widths):
    check = pymc_ksd.ksd_ppc(*curved, num_draws=5, covariates=None, random_seed=1, **options)
    np.testing.assert_allclose(check["member_bandwidth"], widths)
    both = pymc_ksd.ksd_ppc(*curved, num_draws=5, covariates="dose", random_seed=1, **options)
    assert both.sizes["member"] == 3 * len(widths)


def test_columns_of_text_are_groups(curved):
    frame = pd.DataFrame({"age": np.arange(150.0), "village": list("abcde") * 30})
    check = pymc_ksd.ksd_ppc(*curved, num_draws=5, covariates=frame, random_seed=1)
    names = ["residuals", "covariates", "groups", "covariates within groups"]
    assert check["comparison"].values.tolist() == names


def test_without_free_variables_the_data_are_one_more_replicate():
    rng = np.random.default_rng(3)
    with pm.Model() as model:
        x = pm.Data("x", rng.normal(size=40))
        pm.Normal("y", x, 1.0, observed=rng.normal(size=40))
    check = pymc_ksd.ksd_ppc(model, num_draws=19, random_seed=1)
    observed = check["observed_statistic"].values
    assert np.ptp(observed, axis=0).max() < 1e-12
    everyone = np.concatenate([check["replicated_statistic"].values, observed[:1]])
    terms = joined_terms(check, everyone, everyone)
    np.testing.assert_allclose(check["observed"][0], terms[-1].max(), rtol=1e-8)
    np.testing.assert_allclose(check["replicated"], terms[:-1].max(axis=1), rtol=1e-8)


@pytest.mark.slow
@pytest.mark.default_stack
def test_many_observations_are_compared_in_random_parts(curved, monkeypatch):
    whole = pymc_ksd.ksd_ppc(*curved, random_seed=1)
    assert whole.attrs["n_parts"] == 1
    monkeypatch.setattr("pymc_ksd.diagnostics.predictive.parts.MOST_PAIRS", 150 * 75)
    check = pymc_ksd.ksd_ppc(*curved, random_seed=1)
    assert check.attrs["n_parts"] == 2
    assert float(check["p_value"]) <= 0.05
    xr.testing.assert_allclose(check, pymc_ksd.ksd_ppc(*curved, random_seed=1, block_size=11))
    # Half of the pairs: the same comparisons, with more noise.
    excess, of_all = check["comparison_excess"], whole["comparison_excess"]
    assert 0.3 < float(excess.sel(comparison="inputs") / of_all.sel(comparison="inputs")) < 1
    chosen = check["observed_statistic"].sel(member=check["contributions_member"].item())
    assert float(check["y"].sum()) == pytest.approx(float(chosen.mean()), rel=1e-8)
    # Contributions belong to the same observations, whatever part these are in.
    assert np.corrcoef(check["y"], whole["y"])[0, 1] > 0.8


def test_parts_are_a_partition():
    parts = Parts.of(20_000, np.random.default_rng(0))
    assert len(parts.lengths) == 8
    assert sum(parts.lengths) == 20_000
    assert parts.pairs <= 50_000_000
    values = np.arange(40_000.0).reshape(2, 20_000)
    np.testing.assert_array_equal(parts.restored(values[:, parts.order]), values)
    assert Parts.of(7_000, np.random.default_rng(0)).order is None


def test_batches_of_draws_change_nothing(curved, monkeypatch):
    one = pymc_ksd.ksd_ppc(*curved, random_seed=1)
    monkeypatch.setattr("pymc_ksd.diagnostics.predictive.discrepancies._NUMBERS", 8 * 150 * 7)
    xr.testing.assert_allclose(pymc_ksd.ksd_ppc(*curved, random_seed=1), one)


def test_progress_of_a_check_ends_at_all_draws(curved, monkeypatch):
    """The bar moves forward alone and arrives where it should, over several batches."""
    from pymc_ksd.engine.progress import ProgressBar

    seen = []
    real = ProgressBar.advance

    def advance(bar, amount):
        seen.append((bar._total, amount))
        real(bar, amount)

    monkeypatch.setattr(ProgressBar, "advance", advance)
    monkeypatch.setattr("pymc_ksd.diagnostics.predictive.discrepancies._NUMBERS", 8 * 150 * 7)
    pymc_ksd.ksd_ppc(*curved, random_seed=1)
    # What the picture is computed from shows no bar, and comes last.
    amounts = [amount for total, amount in seen if total == 60]
    assert [total for total, _ in seen[: len(amounts)]] == [60] * len(amounts)
    assert min(amounts) > 0
    assert sum(amounts) == pytest.approx(60)
