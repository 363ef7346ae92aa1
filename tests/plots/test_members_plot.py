"""The picture of a panel."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pymc_ksd import Score, ksd_test, plot_ksd_members


@pytest.fixture(scope="module")
def result():
    score = Score.from_callable(lambda x: -x, dim=1)
    data = np.random.default_rng(0).laplace(size=100)
    return ksd_test(score, data, random_seed=0)


@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly", "none"])
def test_every_visual_is_drawn_on_every_backend(result, backend):
    collection = plot_ksd_members(result, backend=backend)
    for visual in ("excess", "stem", "critical_value", "zero", "xlabel", "title"):
        assert visual in collection.viz.children, visual
    plt.close("all")


def test_members_are_named_and_stand_at_their_excess(result):
    plot_ksd_members(result, backend="matplotlib")
    (axis,) = plt.gcf().axes
    texts = dict(
        zip(
            axis.get_yticks(),
            (label.get_text().split(" (")[0] for label in axis.get_yticklabels()),
            strict=True,
        )
    )
    (dots,) = axis.collections
    shown = {texts[height]: excess for excess, height in dots.get_offsets().data}
    assert shown == pytest.approx(result["member_excess"].to_series().to_dict())
    lines = [set(line.get_xdata()) for line in axis.lines]
    assert {float(result["critical_value"])} in lines
    assert "p = " in axis.get_title()
    plt.close("all")


def test_visuals_are_left_out(result):
    collection = plot_ksd_members(result, backend="none", visuals={"title": False})
    assert "title" not in collection.viz.children
    with pytest.raises(ValueError, match=r"`visuals` must have keys among 'excess'.*got 'bars'"):
        plot_ksd_members(result, backend="none", visuals={"bars": False})


def test_one_kernel_has_no_members(result):
    with pytest.raises(ValueError, match="it has no variable 'member_excess'"):
        plot_ksd_members(result.drop_vars("member_excess"))
