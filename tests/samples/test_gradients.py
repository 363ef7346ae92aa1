"""Gradients that a sampler has stored with its draws."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import (
    DrawsWarning,
    Score,
    compile_score,
    ksd_modes,
    ksd_moments,
    ksd_test,
    with_gradients,
)
from pymc_ksd.models import free_variables

LABELS = ["a", "b", "c"]


def build(observed=0.3):
    with pm.Model(coords={"k": LABELS}) as model:
        tau = pm.HalfNormal("tau", 1.0)
        theta = pm.Normal("theta", 0.0, [1.0, 2.0, 3.0], dims="k")
        pm.Normal("y", theta[0], 1.0, observed=[observed])
        pm.Deterministic("sum", tau + theta.sum())
    return model


@pytest.fixture(scope="module")
def exact():
    """Exact draws, their unconstrained values, and the gradient and log density there by hand."""
    rng = np.random.default_rng(3)
    tau = np.abs(rng.normal(size=(4, 60)))
    theta = rng.normal(size=(4, 60, 3)) * [np.sqrt(0.5), 2, 3] + [0.15, 0, 0]
    posterior = xr.Dataset(
        {"tau": (("chain", "draw"), tau), "theta": (("chain", "draw", "k"), theta)},
        coords={"chain": range(4), "draw": range(60), "k": LABELS},
    )
    points = {"tau_log__": np.log(tau), "theta": theta}
    slopes = -theta / np.array([1.0, 4.0, 9.0])
    slopes[..., 0] += 0.3 - theta[..., 0]
    gradients = {"tau_log__": 1 - tau**2, "theta": slopes}
    log_density = (
        np.log(tau)
        - tau**2 / 2
        - (theta**2 / np.array([2.0, 8.0, 18.0])).sum(axis=-1)
        - (0.3 - theta[..., 0]) ** 2 / 2
    )
    return posterior, points, gradients, log_density


def as_nutpie(exact, order=slice(None)):
    """The same as nutpie stores it, perhaps with coordinates in another order."""
    posterior, points, gradients, log_density = exact
    labels = np.array(["tau_log__", "theta_0", "theta_1", "theta_2"], dtype=object)[order]
    dims = ("chain", "draw", "unconstrained_parameter")

    def flat(arrays):
        parts = [arrays["tau_log__"][..., None], arrays["theta"]]
        return dims, np.concatenate(parts, axis=2)[..., order]

    statistics = xr.Dataset(
        {
            "logp": (dims[:2], log_density),
            "unconstrained_draw": flat(points),
            "gradient": flat(gradients),
        },
        coords={"unconstrained_parameter": labels},
    )
    return xr.DataTree.from_dict({"posterior": posterior, "sample_stats": statistics})


def run(model, data, **kwargs):
    return ksd_test(model, data, random_seed=1, progressbar=False, **kwargs)


def same(one, other):
    assert list(one["member"].values) == list(other["member"].values)
    for name in ("statistic", "p_value", "ksd", "ess_ksd", "member_statistic"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-9)


def layouts(exact):
    posterior, points, gradients, log_density = exact
    return {
        "groups": with_gradients(posterior, gradients, points=points, log_density=log_density),
        "gradients only": with_gradients(posterior, gradients, log_density=log_density),
        "nutpie": as_nutpie(exact),
        "nutpie, other order": as_nutpie(exact, [2, 0, 3, 1]),
    }


@pytest.mark.parametrize(
    "layout",
    [
        "groups",
        "gradients only",
        "nutpie",
        pytest.param("nutpie, other order", marks=[pytest.mark.slow, pytest.mark.newer_stack]),
    ],
)
def test_stored_gradients_take_the_place_of_the_models(layout, exact, monkeypatch):
    data = layouts(exact)[layout]
    expected = run(build(), exact[0])
    assert expected.attrs["scores"] == "model"

    def fail(*args):
        raise AssertionError("the model's gradient was built")

    monkeypatch.setattr(free_variables, "_gradient", fail)
    result = run(build(), data)
    assert result.attrs["scores"] == "stored"
    same(result, expected)
    assert ksd_moments(build(), data, progressbar=False).attrs["scores"] == "stored"


@pytest.mark.parametrize("layout", ["groups", "nutpie"])
def test_draws_with_gradients_need_no_model(layout, exact):
    data = layouts(exact)[layout]
    score = Score.from_draws(data)
    assert score.labels == ["tau", "theta[0]", "theta[1]", "theta[2]"]
    same(run(score, data), run(build(), exact[0]))
    ours = ksd_moments(score, data, progressbar=False)
    own = ksd_moments(build(), exact[0], progressbar=False)
    for name in ("tau", "theta"):
        np.testing.assert_allclose(ours[name], own[name], rtol=1e-6)


def test_draws_are_not_taken_for_their_unconstrained_values(rng):
    """NumPyro and Stan call both by one name; exact draws were rejected."""
    tau = rng.exponential(size=(4, 250))
    draws = xr.Dataset({"tau": (("chain", "draw"), tau)})
    gradients = {"tau": 1 - tau}  # with respect to log tau
    alone = with_gradients(draws, gradients)
    with pytest.raises(ValueError, match=r"for the variables tau, .*give `points`"):
        run(Score.from_draws(alone), alone)
    both = with_gradients(draws, gradients, points={"tau": np.log(tau)})
    assert run(Score.from_draws(both), both)["p_value"] > 0.05


def test_a_score_of_draws_knows_nothing_else(exact):
    data = layouts(exact)["groups"]
    score = Score.from_draws(data)
    with pytest.raises(ValueError, match="made from draws"):
        score(np.zeros((2, 4)))
    with pytest.raises(ValueError, match="made from draws"):
        score.unconstrain({"tau": np.ones(2), "theta": np.ones((2, 3))})
    with pytest.raises(ValueError, match="made from draws"):
        ksd_modes(score, data, progressbar=False)
    with pytest.raises(ValueError, match="must have the unconstrained values"):
        run(score, exact[0])
    with pytest.raises(ValueError, match="must have gradients beside its draws"):
        Score.from_draws(xr.DataTree.from_dict({"posterior": exact[0]}))


def test_wrong_gradients_are_told_and_not_used(exact):
    posterior, points, gradients, _ = exact
    wrong = {**gradients, "tau_log__": gradients["tau_log__"] - 1}  # without the Jacobian
    data = with_gradients(posterior, wrong, points=points)
    with pytest.warns(DrawsWarning, match="not those of `model`, most of all for tau"):
        result = run(build(), data)
    assert result.attrs["scores"] == "model, stored ones differ"
    same(result, run(build(), posterior))
    # Another model's, of which only the data differ.
    with pytest.warns(DrawsWarning, match=r"most of all for theta\[0\]"):
        run(build(observed=0.4), layouts(exact)["groups"])


@pytest.mark.parametrize("column", range(3))
def test_a_small_error_in_one_coordinate_is_noticed(column, exact):
    posterior, points, gradients, _ = exact
    wrong = gradients["theta"].copy()
    wrong[..., column] *= 1.02
    data = with_gradients(posterior, {**gradients, "theta": wrong}, points=points)
    with pytest.warns(DrawsWarning, match="not those of `model`"):
        run(build(), data)


def test_single_precision_is_good_enough(exact):
    posterior, points, gradients, log_density = exact
    single = [
        {name: values.astype(np.float32) for name, values in arrays.items()}
        for arrays in (gradients, points)
    ]
    data = with_gradients(posterior, single[0], points=single[1], log_density=log_density)
    result = run(build(), data)
    assert result.attrs["scores"] == "stored"
    np.testing.assert_allclose(result["ksd"], run(build(), posterior)["ksd"], rtol=1e-4)


def test_log_densities_are_used_only_where_they_are_those_of_unconstrained_values(exact):
    posterior, points, gradients, log_density = exact
    tilted = [name for name in run(build(), posterior)["member"].values if "tilted" in name]
    assert tilted
    for stored, is_used in (
        (log_density + 7.0, True),
        (log_density - points["tau_log__"], False),  # on the users' scale, without the Jacobian
        (-log_density, False),
    ):
        data = with_gradients(posterior, gradients, points=points)
        statistics = xr.Dataset({"lp": (("chain", "draw"), stored)})
        data = xr.DataTree.from_dict(
            {**{k: v.to_dataset() for k, v in data.children.items()}, "sample_stats": statistics}
        )
        result = run(build(), data)
        assert result.attrs["scores"] == "stored"
        assert [name in result["member"].values for name in tilted] == [is_used] * len(tilted)
        # Without a model nothing says of which values they are.
        alone = run(Score.from_draws(data), data)
        assert not any("tilted" in name for name in alone["member"].values)


def test_gradients_of_other_draws_are_not_used(exact):
    posterior, points, gradients, log_density = exact
    data = with_gradients(posterior, gradients, points=points, log_density=log_density)
    groups = {name: node.to_dataset() for name, node in data.children.items()}
    thinned = {**groups, "posterior": posterior.isel(draw=slice(None, None, 2))}
    assert run(build(), xr.DataTree.from_dict(thinned)).attrs["scores"] == "model"
    turned = {**groups, "posterior": posterior.isel(draw=slice(None, None, -1))}
    with pytest.warns(DrawsWarning, match="are not those of its posterior"):
        assert run(build(), xr.DataTree.from_dict(turned)).attrs["scores"] == "model"
    both = {
        name: group.isel(draw=slice(None, None, 2)) if "draw" in group.dims else group
        for name, group in groups.items()
    }
    assert run(build(), xr.DataTree.from_dict(both)).attrs["scores"] == "stored"
    gradients["theta"][1, 5, 1] = np.nan
    with pytest.raises(ValueError, match="must be finite"):
        run(build(), with_gradients(posterior, gradients))
    gradients["theta"][1, 5, 1] = -points["theta"][1, 5, 1] / 4


def test_labels_decide_which_gradient_is_which(exact):
    posterior, points, gradients, log_density = exact
    data = with_gradients(posterior, gradients, points=points, log_density=log_density)
    turned = xr.DataTree.from_dict(
        {
            name: node.to_dataset().isel(k=[2, 0, 1]) if "k" in node.dims else node.to_dataset()
            for name, node in data.children.items()
        }
    )
    result = run(build(), turned)
    assert result.attrs["scores"] == "stored"
    same(result, run(build(), posterior))


def test_the_sign_of_a_potential_energy(exact):
    posterior, points, gradients, log_density = exact
    minus = {name: -values for name, values in gradients.items()}
    data = with_gradients(
        posterior, minus, points=points, log_density=-log_density, of_potential=True
    )
    same(run(build(), data), run(build(), posterior))
    wrong = with_gradients(posterior, minus, points=points)
    with pytest.warns(DrawsWarning, match="of_potential=True"):
        run(Score.from_draws(wrong), wrong)


def test_with_gradients_leaves_the_draws_as_they_were(exact):
    posterior, points, gradients, log_density = exact
    tree = xr.DataTree.from_dict({"posterior": posterior})
    stored = with_gradients(tree, gradients, points=points, log_density=log_density)
    assert list(tree.children) == ["posterior"]
    assert set(stored.children) == {
        "posterior",
        "sample_stats",
        "unconstrained_gradient",
        "unconstrained_posterior",
    }
    with pytest.raises(ValueError, match="`gradients` for 'tau_log__' must have shape"):
        with_gradients(tree, {"tau_log__": gradients["tau_log__"].T})
    with pytest.raises(TypeError, match="`gradients` must be a mapping"):
        with_gradients(tree, gradients["theta"])
    with pytest.raises(TypeError, match="`data` must hold a sampler's draws"):
        with_gradients(np.zeros(3), gradients)


def test_the_models_own_score_agrees_with_the_one_by_hand(exact):
    _, points, gradients, _ = exact
    score = compile_score(build())
    flat = np.concatenate([points["tau_log__"][..., None], points["theta"]], axis=2).reshape(-1, 4)
    by_hand = np.concatenate([gradients["tau_log__"][..., None], gradients["theta"]], axis=2)
    np.testing.assert_allclose(score(flat), by_hand.reshape(-1, 4), atol=1e-10)
    assert list(score.labels) == ["tau", "theta[0]", "theta[1]", "theta[2]"]


@pytest.mark.parametrize("chain", range(4))
def test_gradients_of_every_chain_are_held_against_the_model(chain, exact):
    posterior, points, gradients, log_density = exact
    wrong = gradients["theta"].copy()
    wrong[chain] += 0.5
    data = with_gradients(
        posterior, {**gradients, "theta": wrong}, points=points, log_density=log_density
    )
    with pytest.warns(DrawsWarning, match=rf"of chain {chain}, where the model's is"):
        result = run(build(), data)
    assert result.attrs["scores"] == "model, stored ones differ"


def test_log_densities_have_one_number_for_every_draw(exact):
    posterior, _, gradients, log_density = exact
    with pytest.raises(ValueError, match="one number for every chain and draw, got an array of"):
        with_gradients(posterior, gradients, log_density=log_density[..., None])


def test_streams_are_scored_by_the_model(exact, monkeypatch):
    data = layouts(exact)["groups"]
    held = ksd_moments(build(), data, progressbar=False)
    monkeypatch.setattr("pymc_ksd.samples.stream._LARGE_NUMBERS", 100)
    streamed = ksd_moments(build(), data, progressbar=False)
    assert streamed.attrs["scores"] == "model"
    score = Score.from_draws(data)
    alone = ksd_moments(score, data, progressbar=False)
    assert alone.attrs["scores"] == "stored"
    np.testing.assert_allclose(alone["p_value"], held["p_value"], rtol=1e-6)
    with pytest.warns(DrawsWarning, match="takes the draws as independent"):
        linear = run(score, data, statistic="linear")
    monkeypatch.undo()
    with pytest.warns(DrawsWarning, match="takes the draws as independent"):
        np.testing.assert_allclose(
            linear["statistic"], run(score, data, statistic="linear")["statistic"]
        )
