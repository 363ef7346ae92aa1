"""The benchmark compares like with like, and methods agree; ten stories are complete."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from benchmarks.__main__ import _table, _time
from benchmarks.panel_speed import aggregated
from benchmarks.speed import compare, sample
from benchmarks.speed_cases import FLOORS, numpy_test, statistics, whole_tests
from benchmarks.ten_models import __main__ as ten_models
from benchmarks.ten_models import data as ten_data
from benchmarks.ten_models.stories import STORIES

VERSIONS = [version for story in STORIES for version in story.versions]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # other packages' own warnings
@pytest.mark.parametrize("dim", [1, 4])
def test_all_methods_agree(dim):
    arguments = sample(150, dim)
    values = {name: method(*arguments) for name, method in statistics().items()}
    assert {"pymc_ksd", "NumPy", "jax.jit", "stein-thinning", *FLOORS} <= set(values)
    np.testing.assert_allclose(list(values.values()), values["NumPy"], rtol=1e-9)


def test_replicates_agree():
    x, s, h = sample(80, 2)
    weights = np.random.default_rng(0).integers(-1, 3, size=(9, 80)).astype(np.int8)
    expected = numpy_test(x, s, h, weights)
    np.testing.assert_allclose(whole_tests(["jax.jit"])["jax.jit"](x, s, h, weights), expected)


def test_many_bandwidths_agree(monkeypatch):
    monkeypatch.setattr("pymc_ksd.engine.functions._FUSED_PAIRS", 0)
    x, s, h = sample(80, 2)
    signs = np.random.default_rng(0).choice(np.array([-1, 1], dtype=np.int8), size=(9, 80))
    methods = aggregated()
    found = [methods[name](x, s, h, signs) for name in ("pymc_ksd", "jax.jit")]
    np.testing.assert_allclose(*found, atol=1e-4 * found[0].std())


def test_ratios_stand_beside_seconds():
    def quick(points):
        return None

    def slow(points):
        return [sum(range(2_000)) for _ in range(20)]

    results = compare({"ours": quick, "theirs": slow}, (np.zeros(4),), (np.zeros(2),))
    assert results["ours"][1] == 1
    assert results["theirs"][1] > 1
    lines = _table({"d = 1": {"ours": (0.5, 1.0), "theirs": (-120.0, np.nan)}}, "method")
    assert lines[-2:] == ["| ours | 0.50 s, 1× |", "| theirs | over 120 s |"]
    assert [_time(took) for took in (12.34, 0.5, 0.0123)] == ["12.3", "0.50", "0.012"]


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.filterwarnings("ignore")  # samplers' own warnings
def test_a_comparison_puts_samplers_in_order():
    from benchmarks.sampler_comparison import before_both, comparison, in_order

    assert in_order(["NUTS", "short NUTS", "ADVI", "Pathfinder"])
    assert in_order(["NUTS", "ADVI", "short NUTS", "Pathfinder"])
    assert not in_order(["short NUTS", "NUTS", "ADVI", "Pathfinder"])
    assert not before_both(["NUTS", "ADVI", "short NUTS", "Pathfinder"])
    table = comparison("linear regression", 0)
    assert in_order([row["sampler"] for row in table]), table


def test_data_of_ten_models_have_the_sums_that_are_known():
    assert ten_data.RAT_WEIGHTS.reshape(30, 5).sum(axis=0).tolist() == [
        4565,
        6053,
        7351,
        8685,
        9744,
    ]
    assert (ten_data.FROGS_IN_TANK.sum(), ten_data.FROGS_LEFT.sum()) == (1120, 783)
    assert (ten_data.PUTTS.sum(), ten_data.PUTTS_IN.sum()) == (5988, 3390)
    assert (ten_data.DEATHS.size, ten_data.DEATHS.sum()) == (200, 122)
    assert (ten_data.FLOW.size, ten_data.FLOW.sum()) == (100, 91935)
    assert (ten_data.DISASTERS.size, ten_data.DISASTERS.sum()) == (111, 191)
    assert [ten_data.REMISSION[ten_data.TREATED == one].sum() for one in (1, 0)] == [359, 182]
    assert ten_data.STILL_IN_REMISSION.sum() == 12


def test_ten_stories_are_complete():
    assert len({story.title for story in STORIES}) == len(STORIES) == 10
    page = (Path(__file__).parents[1] / "docs" / "ten_models.md").read_text()
    for story in STORIES:
        assert f"## {story.title}\n\n{story.data}\n" in page
        assert f"**Is that right?** {story.right}\n" in page
        if story.drawn is not None:
            assert story.versions[story.drawn].expected == "rejected"
        for version in story.versions:
            assert version.expected in ("passed", "rejected", "refused")
            assert ten_models.source(version) in page
    for image in re.findall(r"\]\((images/ten_[^)]+)\)", page):
        assert (Path(__file__).parents[1] / "docs" / image).stat().st_size < 100_000


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: version.build.__name__)
def test_ten_models_can_be_built(version):
    if version.expected == "refused":
        pytest.importorskip("pymc_bart")  # no dependency: it is named to show that it is refused
    model = version.build()
    assert isinstance(model, pm.Model)
    assert len(model.observed_RVs) == 1
    assert version.covariates is None or version.covariates in model.named_vars


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the sampler's own warnings
def test_a_story_is_told_from_data_to_picture(monkeypatch, tmp_path):
    kicks = next(story for story in STORIES if story.title == "Horse kicks")
    story = replace(kicks, title="Some kicks", drawn=0)
    monkeypatch.setattr(ten_models, "STORIES", [story])
    monkeypatch.setitem(ten_models.SAMPLING, "draws", 200)
    page = tmp_path / "page.md"
    ten_models.main(["--images", str(tmp_path), "--out", str(page)])
    text = page.read_text()
    assert re.search(r"\| \[Some kicks\]\(#some-kicks\) \| Poisson \| passed .* \| yes \|", text)
    assert "![Some kicks, Poisson: the data" in text
    assert (tmp_path / "ten_some_kicks.png").stat().st_size > 5_000
