import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import compile_score, ksd, ksd_ppc, ksd_report, ksd_summary, ksd_test
from pymc_ksd.samples import draws as samples_draws


def read_draws(score, data):
    return samples_draws.read_draws(score._target, data)


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"k": ["a", "b"]}) as model:
        tau = pm.HalfNormal("tau", 1.0)
        theta = pm.Normal("theta", 0.0, 1.0, dims="k")
        pm.Deterministic("product", tau * theta)
    return model


@pytest.fixture
def posterior():
    rng = np.random.default_rng(0)
    tau, theta = np.abs(rng.normal(size=(3, 40))), rng.normal(size=(3, 40, 2))
    return xr.Dataset(
        {
            "tau": (("chain", "draw"), tau),
            "theta": (("chain", "draw", "k"), theta),
            "product": (("chain", "draw", "k"), tau[..., None] * theta),
        },
        coords={"chain": [5, 6, 7], "draw": np.arange(100, 140), "k": ["a", "b"]},
    )


def test_read_draws_keeps_chains_apart(model, posterior):
    draws = read_draws(compile_score(model), xr.DataTree.from_dict({"posterior": posterior}))
    assert (draws.n_chains, draws.n_draws) == (3, 40)
    np.testing.assert_allclose(draws.chains[..., 0], np.log(posterior["tau"]))
    np.testing.assert_array_equal(draws.chains[..., 1:], posterior["theta"])
    np.testing.assert_array_equal(draws.points[draws.chain_numbers == 1], draws.chains[1])


def test_read_draws_of_any_container_and_axis_order(model, posterior):
    import arviz as az

    score = compile_score(model)
    expected = read_draws(score, posterior).points
    turned = posterior.transpose("k", "draw", "chain")
    np.testing.assert_array_equal(read_draws(score, turned).points, expected)
    container = (
        az.convert_to_inference_data({name: posterior[name].values for name in posterior})
        if hasattr(az, "convert_to_inference_data")
        else xr.DataTree.from_dict({"posterior": posterior})
    )
    np.testing.assert_array_equal(read_draws(score, container).points, expected)


def with_unconstrained(posterior, tau):
    return xr.DataTree.from_dict(
        {
            "posterior": posterior,
            "unconstrained_posterior": tau.to_dataset(name="tau_log__"),
            "warmup_posterior": posterior * np.nan,
        }
    )


def test_unconstrained_posterior_is_taken_as_it_is(model, posterior):
    stored = np.log(posterior["tau"]) + 1e-6
    draws = read_draws(compile_score(model), with_unconstrained(posterior, stored))
    np.testing.assert_array_equal(draws.chains[..., 0], stored)
    np.testing.assert_array_equal(draws.chains[..., 1:], posterior["theta"])


def test_unconstrained_values_of_other_draws_are_noticed(model, posterior):
    score, stored = compile_score(model), np.log(posterior["tau"])
    expected = read_draws(score, posterior).points
    with pytest.warns(UserWarning, match="unconstrained values stored in `data` are not those"):
        draws = read_draws(score, with_unconstrained(posterior, stored + 1.0))
    np.testing.assert_array_equal(draws.points, expected)
    # Something else than draws (a mode), or what was there before thinning.
    mode = with_unconstrained(posterior, stored.isel(chain=[0], draw=[0]))
    np.testing.assert_array_equal(read_draws(score, mode).points, expected)
    only = with_unconstrained(posterior, stored)["posterior"]
    np.testing.assert_array_equal(read_draws(score, only).points, expected)


def test_stale_values_of_one_chain_are_noticed(model, posterior):
    stored = np.log(posterior["tau"])
    posterior["tau"][2] = posterior["tau"].values[2, ::-1]  # as if it had been run again
    score = compile_score(model)
    with pytest.warns(UserWarning, match="unconstrained values stored in `data` are not those"):
        draws = read_draws(score, with_unconstrained(posterior, stored))
    np.testing.assert_allclose(draws.chains[..., 0], np.log(posterior["tau"]))


def test_unconstrained_values_beyond_what_the_posterior_can_hold(model, posterior):
    """A standard deviation of e⁻⁸⁰⁰ is zero in a posterior, and a number in its logarithm."""
    stored = np.log(posterior["tau"])
    stored[0, 0] = -800.0
    posterior["tau"][0, 0] = 0.0
    draws = read_draws(compile_score(model), with_unconstrained(posterior, stored))
    np.testing.assert_array_equal(draws.chains[..., 0], stored)


def test_draws_without_chains_are_one_chain(model, posterior):
    score = compile_score(model)
    one = read_draws(score, posterior.isel(chain=[1]))
    assert (one.n_chains, one.n_draws) == (1, 40)
    for data in (posterior.isel(chain=1), posterior.isel(chain=1, drop=True)):
        np.testing.assert_array_equal(read_draws(score, data).points, one.points)
        assert ksd_test(score, data, random_seed=0).attrs["null"] == "wild"
    stacked = posterior.stack(sample=("chain", "draw"))
    whole = read_draws(score, stacked)
    np.testing.assert_array_equal(whole.points, read_draws(score, posterior).points)
    assert ksd_test(score, stacked, random_seed=0).attrs["n_chains"] == 3


def extracted(posterior):
    """What ArviZ makes of a container's draws for further computation."""
    import arviz as az

    is_former = az.__version__.startswith("0.")
    tree = xr.DataTree.from_dict({"posterior": posterior})
    return az.extract(az.InferenceData(posterior=posterior) if is_former else tree)


def test_draws_from_extract_are_put_into_chains_again(model, posterior):
    score, stacked = compile_score(model), extracted(posterior)
    expected = read_draws(score, posterior)
    # As it comes, in another order, and with labels that are no index any more, as in a file.
    turned, plain = stacked.isel(sample=slice(None, None, -1)), stacked.reset_index("sample")
    for data in (stacked, turned, plain):
        draws = read_draws(score, data)
        assert draws.n_chains == 3
        np.testing.assert_array_equal(draws.points, expected.points)
    assert ksd_test(score, plain, random_seed=0).attrs["null"] == "wild"


def test_some_draws_from_extract_are_refused(model, posterior):
    stacked = extracted(posterior)
    # As with `num_samples`.
    some = stacked.isel(sample=np.random.default_rng(0).permutation(120)[:50])
    message = r"must have every draw of its chains: along 'sample' it has 50 of 3 chain\(s\)"
    for function in (ksd_test, ksd, ksd_summary):
        with pytest.raises(ValueError, match=message):
            function(model, some)
    unlabelled = stacked.drop_vars(["sample", "chain", "draw"])
    for function in (ksd, ksd_summary):
        with pytest.raises(TypeError, match=r"with the dims 'chain' and 'draw', got Dataset with"):
            function(model, unlabelled)


def test_predictive_check_of_draws_without_chains_says_what_was_given(rng):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), observed=rng.normal(size=20))
    with pytest.raises(TypeError, match="got Dataset with the dims 'sample'"):
        ksd_ppc(model, xr.Dataset({"mu": ("sample", rng.normal(size=50))}))
    with pytest.raises(TypeError, match=r"must be the pm.Model itself here: a compiled Score"):
        ksd_ppc(compile_score(model), xr.Dataset({"mu": (("chain", "draw"), np.ones((1, 9)))}))


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore:.*return_inferencedata=False.*:FutureWarning")
def test_multitrace_is_read_as_the_container_made_of_it(model):
    with model:
        trace = pm.sample(
            30, tune=20, chains=2, cores=1, random_seed=1, progressbar=False,
            return_inferencedata=False, compute_convergence_checks=False,
        )  # fmt: skip
    score = compile_score(model)
    expected = read_draws(score, pm.to_inference_data(trace, model=model))
    draws = read_draws(score, trace)
    assert (draws.n_chains, draws.n_draws, draws.independent) == (2, 30, False)
    np.testing.assert_array_equal(draws.points, expected.points)
    assert ksd_test(model, trace, random_seed=0).attrs["null"] == "wild"
    assert sorted(ksd_summary(model, trace).index) == ["tau", "theta[a]", "theta[b]"]
    assert ksd_report(model, trace, random_seed=0).summary is not None


@pytest.mark.parametrize(
    "dates",
    [
        np.arange(20).astype("M8[D]"),
        pd.DataFrame({"day": pd.date_range("2024", periods=20)}),
        pd.Series(pd.date_range("2024", periods=20, tz="UTC"), name="day"),
    ],
    ids=["array", "frame", "zone"],
)
def test_dates_are_no_covariates(rng, dates):
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("mu"), observed=rng.normal(size=20))
    draws = xr.Dataset({"mu": (("chain", "draw"), rng.normal(size=(2, 30)))})
    with pytest.raises(TypeError, match="holds dates or times: give numbers, such as days since"):
        ksd_ppc(model, draws, covariates=dates)


def test_dates_are_no_draws(model, posterior):
    dates = posterior.assign(tau=posterior["tau"].astype("M8[s]"))
    with pytest.raises(TypeError, match=r"'tau' cannot be read as an array of numbers \(dates\)"):
        ksd_test(model, dates)


def test_axes_without_dims_are_told_by_their_numbers():
    with pm.Model() as model:
        pm.Normal("t", np.arange(4.0).reshape(2, 2), shape=(2, 2))
    values = np.random.default_rng(0).normal(size=(2, 30, 2, 2))
    draws = xr.Dataset({"t": (("chain", "draw", "t_dim_0", "t_dim_1"), values)})
    score = compile_score(model)
    turned = draws.transpose("chain", "draw", "t_dim_1", "t_dim_0")
    np.testing.assert_array_equal(read_draws(score, turned).points, read_draws(score, draws).points)


@pytest.mark.parametrize("labels", [["all", 2019], [False, True], [3, 1]], ids=str)
def test_labels_as_arviz_writes_them(labels):
    with pm.Model(coords={"k": labels}) as model:
        pm.Normal("t", [0.0, 5.0], dims="k")
    values = np.random.default_rng(0).normal([0, 5], size=(2, 30, 2))
    draws = xr.Dataset({"t": (("chain", "draw", "k"), values)}, coords={"k": np.asarray(labels)})
    for data in (draws, draws.isel(k=[1, 0])):
        np.testing.assert_array_equal(read_draws(compile_score(model), data).chains, values)


def test_labels_decide_which_element_is_which(model, posterior):
    score = compile_score(model)
    expected = read_draws(score, posterior).points
    turned = posterior.isel(k=[1, 0])
    np.testing.assert_array_equal(read_draws(score, turned).points, expected)
    unlabelled = posterior.assign_coords(k=[0, 1])
    np.testing.assert_array_equal(read_draws(score, unlabelled).points, expected)
    with pytest.raises(ValueError, match=r"labels along 'k' \('a', 'b'\), got 'a', 'c'"):
        read_draws(score, posterior.assign_coords(k=["a", "c"]))


def test_draws_choose_their_own_defaults(model, posterior):
    result = ksd_test(model, posterior, random_seed=0)
    chosen = {key: result.attrs[key] for key in ("kernel", "statistic", "null", "scale")}
    assert chosen == {"kernel": "IMQ()", "statistic": "v", "null": "wild", "scale": "cov"}
    assert (result.attrs["n"], result.attrs["n_chains"]) == (120, 3)
    assert result.attrs["autocorrelation_time"] >= 1
    given = ksd_test(model, posterior, random_seed=0, autocorrelation_time=7)
    assert given.attrs["autocorrelation_time"] == 7
    independent = ksd_test(model, posterior, random_seed=0, null="rademacher")
    np.testing.assert_array_equal(independent["member_statistic"], result["member_statistic"])


def test_draws_are_not_taken_as_independent_silently(model, posterior):
    assert ksd_test(model, posterior, statistic="u", random_seed=0).attrs["null"] == "wild"
    with pytest.warns(UserWarning, match="'linear' with the normal null takes the draws as"):
        ksd_test(model, posterior, statistic="linear")


def test_nan_draws_name_chain_draw_and_variable(model, posterior):
    posterior["theta"][1, 3, 1] = np.nan
    with pytest.raises(
        ValueError, match=r"1 value\(s\) of 'theta' are not, first in chain 6, draw 103 \(theta\[1"
    ):
        ksd_test(model, posterior)


def test_bad_draws(model, posterior):
    with pytest.raises(ValueError, match=r"lacks the variable\(s\) tau in its posterior; it has"):
        ksd_test(model, posterior.drop_vars("tau"))
    with pytest.raises(ValueError, match="must have a group 'posterior'"):
        ksd_test(model, xr.DataTree.from_dict({"prior": posterior}))
    with pytest.raises(ValueError, match=r"'theta' must have shape \(2,\) in every draw"):
        ksd_test(model, posterior.isel(k=[0]))
    with pytest.raises(ValueError, match="`autocorrelation_time` must be positive"):
        ksd_test(model, posterior, autocorrelation_time=-1)
    with pytest.raises(ValueError, match="belongs to `null` 'wild', but `null` is 'rademacher'"):
        ksd_test(model, posterior, autocorrelation_time=5, null="rademacher")
    posterior["tau"][2, 0] = -1.0
    with pytest.raises(
        ValueError,
        match=r"1 of 120 draws lie outside the support of 'tau', first in chain 7, draw 100\.",
    ):
        ksd_test(model, posterior)
    with pm.Model() as observed:
        pm.Normal("tau", observed=np.zeros(3))
    with pytest.raises(ValueError, match="no free variables they could be draws of"):
        ksd_test(observed, posterior)


def test_few_draws_warn(model, posterior):
    with pytest.warns(UserWarning, match="Only 19 draws in each chain"):
        ksd_test(model, posterior.isel(draw=slice(19)), random_seed=0)


def test_repeated_draws_work(model, posterior):
    """A sampler that rejects proposals repeats its state."""
    repeated = posterior.isel(draw=np.repeat(np.arange(10), 4))
    result = ksd_test(model, repeated, random_seed=0)
    assert result.attrs["autocorrelation_time"] > 2
    assert result["p_value"] > 0.05
    shifted = repeated.assign(theta=repeated["theta"] + 3)
    assert ksd_test(model, shifted, random_seed=0)["p_value"] <= 0.05
