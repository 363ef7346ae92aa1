"""The battery: its targets, its controls, and what it makes of samplers."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_ksd import battery, compile_score
from pymc_ksd.samplers.battery import as_dataset, by_name, judge_target
from pymc_ksd.samplers.controls import CONTROLS, Control, exact_chains
from pymc_ksd.samplers.targets import TARGETS

NAMES = [target.name for target in TARGETS]


def exact_sampler(*names, n_draws=250, changed=None):
    """A sampler that is right on these targets, in this order."""
    targets = iter(names or NAMES)

    def sampler(model, random_seed):
        assert isinstance(model, pm.Model)
        chains = exact_chains(by_name(next(targets)), n_draws, np.random.default_rng(random_seed))
        return as_dataset(chains if changed is None else changed(chains))

    return sampler


@pytest.mark.parametrize("name", NAMES)
def test_draws_of_a_target_are_those_of_its_model(name, rng):
    """By Stein's identity, the means of s and of z s + 1 are zero, coordinate by coordinate."""
    target = by_name(name)
    draws = target.exact(4_000, rng)
    score = compile_score(target.model())
    points = score.unconstrain({key: np.asarray(value) for key, value in draws.items()})
    scores = score(points)
    centred = points - points.mean(axis=0)
    features = np.concatenate([scores, centred * scores + 1.0], axis=1)
    z = features.mean(axis=0) / (features.std(axis=0) / np.sqrt(len(features)))
    # Of 200 numbers one is beyond 4.5 standard errors by chance in a thousand runs.
    assert np.abs(z).max() < 4.5
    assert target.build() is not target.model()
    assert {v.name for v in target.build().free_RVs} == set(draws)


def test_there_is_a_dozen_of_targets_with_different_names():
    assert len(set(NAMES)) == len(TARGETS) == 12
    assert [target.name for target in TARGETS if target.several_modes] == ["two modes"]
    assert {control.target for control in CONTROLS} <= set(NAMES)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_a_sampler_that_is_right_passes_and_wrong_ones_are_caught():
    result = battery(
        exact_sampler("normal", "bounded"), targets=["bounded", "normal"], random_seed=1
    )
    assert result.passed, result
    assert list(result.table.index) == ["normal", "bounded"]  # in the battery's own order
    assert list(result.controls.index) == [control.name for control in CONTROLS]
    assert result.controls["caught"].all()
    assert result.settings["level_of_a_target"] == 0.025
    assert (result.table["n"] == 1_000).all()
    assert (result.table["sampling_time"] > 0).all()
    assert result.reasons == []
    assert "passed on all 2 targets, at level 0.05" in str(result)
    assert "all 6 controls were caught" in str(result)
    assert "<table" in result._repr_html_()


def test_a_sampler_that_is_wrong_on_one_target_is_rejected():
    def sampler(model, random_seed):
        (name,) = [
            name for name, size in {"x": 10, "shares": 4}.items() if name in model.named_vars
        ]
        own = exact_sampler("badly scaled" if name == "x" else "simplex")
        draws = own(model, random_seed)
        return draws if name == "shares" else draws * 1.2

    names = ["badly scaled", "simplex"]
    result = battery(sampler, targets=names, controls=False, random_seed=1)
    assert (result.status, result.passed) == ("rejected", False)
    assert (result.having("rejected"), result.having("passed")) == ([names[0]], [names[1]])
    (reason,) = result.reasons
    assert reason.startswith("badly scaled: rejected (p ")
    assert "of 1,000 draws; largest error of a mean 0." in reason
    assert "largest error of a standard deviation 0.26 of it, x[" in reason
    assert "< 1e-10" in str(result)
    assert "wrong on 1 of 2 targets, at level 0.05 for all" in result.headline
    assert result.table.loc["badly scaled", "bias_sd"] == pytest.approx(0.2, abs=0.08)
    assert not len(result.controls)
    assert result.to_dict()["targets"]["simplex"]["status"] == "passed"


@pytest.mark.parametrize("missed", [0, 1])
def test_modes_are_counted(missed):
    """A sampler that leaves one mode out is exact within the other, which no score can tell."""

    def sampler(model, random_seed):
        rng = np.random.default_rng(random_seed)
        values = by_name("two modes").exact(8_000, rng)["x"]
        values = values[values[:, 0] < 0][:1_000] if missed else values[:1_000]
        return as_dataset({"x": values.reshape(4, 250, 2)})

    result = battery(sampler, targets=["two modes"], controls=False, random_seed=2)
    assert result.status == ("rejected" if missed else "passed"), result
    expected = "Modes are visited in wrong proportions." if missed else ""
    assert result.table.loc["two modes", "reason"] == expected


def test_errors_and_chains_that_cannot_be_told_do_not_pass():
    def fails(model, random_seed):
        raise RuntimeError("no draws today")

    def forgets(model, random_seed):
        return xr.Dataset({"other": (("chain", "draw"), np.zeros((2, 50)))})

    def apart(model, random_seed):
        values = np.sort(np.random.default_rng(1).normal(1.0, 2.0, size=(1_000, 5)), axis=0)
        return as_dataset({"x": values.reshape(4, 250, 5)})

    words = {fails: "RuntimeError: no draws today", forgets: "lacks the variable(s) x"}
    words[apart] = "The chains disagree"
    for sampler, reason in words.items():
        result = battery(sampler, targets=["normal"], controls=False, random_seed=1)
        assert (result.status, result.passed) == ("cannot tell", False)
        assert reason in result.reasons[0]
        assert result.headline.startswith("Cannot tell")
    assert result.having("cannot tell") == ["normal"]


def test_a_control_that_is_not_caught_leaves_the_answer_open(monkeypatch):
    right = Control(
        "right", "nothing", "normal", lambda n, rng: exact_chains(by_name("normal"), n, rng)
    )
    monkeypatch.setattr("pymc_ksd.samplers.battery.CONTROLS", (right,))
    result = battery(exact_sampler("normal"), targets=["normal"], random_seed=1)
    assert result.table["status"].tolist() == ["passed"]
    assert (result.status, result.missed) == ("cannot tell", ["right"])
    assert result.headline == "Cannot tell whether the sampler is right on the target 'normal'."
    assert "was not caught" in result.reasons[0]


def test_seeds_do_not_depend_on_the_choice_of_targets():
    seeds = []

    def sampler(model, random_seed):
        seeds.append(random_seed)
        return exact_sampler("simplex" if "shares" in model.named_vars else "banana")(
            model, random_seed
        )

    options = {"controls": False, "random_seed": 5}
    both = battery(sampler, targets=["banana", "simplex"], **options)
    one = battery(sampler, targets="simplex", **options)
    assert seeds[1] == seeds[2] != seeds[0]
    assert both.table.loc["simplex", "ess_ksd"] == pytest.approx(
        one.table.loc["simplex", "ess_ksd"]
    )


def test_arguments_are_checked():
    with pytest.raises(TypeError, match="`sampler` must be callable, got str"):
        battery("nuts")
    with pytest.raises(ValueError, match=r"`targets` must name some of 'normal'.*got 'donut'"):
        battery(print, targets=["donut"])
    with pytest.raises(ValueError, match="got none"):
        battery(print, targets=[])
    with pytest.raises(ValueError, match="`alpha` must lie"):
        battery(print, alpha=0)


@pytest.mark.slow
@pytest.mark.default_stack
def test_exact_samplers_pass_and_controls_are_caught_often_enough():
    """Twelve targets and six controls, three times each; see docs/battery_calibration.md."""
    level = 0.05 / len(TARGETS)
    passed = [
        battery(exact_sampler(), controls=False, random_seed=seed, progressbar=False).passed
        for seed in range(3)
    ]
    assert sum(passed) >= 2
    for control in CONTROLS:
        caught = [
            judge_target(
                by_name(control.target),
                as_dataset(control.draw(250, np.random.default_rng(seed))),
                level,
                4_000,
                seed,
            ).status
            != "passed"
            for seed in range(3)
        ]
        assert all(caught), control.name
