"""The picture of a comparison of samplers."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from pymc_ksd import plot_ksd_compare


@pytest.fixture
def table():
    columns = {
        "status": ["passed", "cannot tell", "rejected", "rejected", "rejected", "not tested"],
        "ess_ksd": [950.0, 30.0, 25.0, 9.0, 4.0, np.nan],
        "n": [1_000, 400, 500, 500, 500, 0],
        "bias_mean": [0.01, np.nan, 0.31, -0.1, np.inf, np.nan],
        "bias_mean_of": ["mu", "", "mu", "mu", "mu", ""],
        "bias_sd": [0.01, np.nan, -0.12, -0.43, np.nan, np.nan],
        "bias_sd_of": ["mu", "", "tau", "theta[$a$]", "", ""],
    }
    names = ["nuts", "metropolis", "advi", "pathfinder", "laplace", "broken"]
    return pd.DataFrame(columns, index=pd.Index(names))


@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly", "none"])
def test_every_visual_is_drawn_on_every_backend(table, backend):
    collection = plot_ksd_compare(table, backend=backend)
    dots = ("ess_ksd_passed", "ess_ksd_cannot_tell", "ess_ksd_rejected")
    for visual in (*dots, "n", "loss", "xlabel", "title"):
        assert visual in collection.viz.children, visual
    plt.close("all")


def test_samplers_stand_at_what_they_are_worth_the_best_on_top(table):
    collection = plot_ksd_compare(table, backend="matplotlib")
    axis, figure = collection.get_target("ess_ksd", {}), collection.viz["figure"].item()
    texts = [label.get_text() for label in axis.get_yticklabels()]
    assert texts == [
        "nuts",
        "metropolis",
        "advi (mean of mu +0.31 sd)",
        r"pathfinder (sd of theta[\$a\$] -43 %)",
        "laplace (mean of mu far off)",
        "broken (not tested)",
    ]
    heights = axis.get_yticks()
    assert heights[0] == max(heights)
    assert axis.get_xscale() == "log"
    offsets = np.concatenate([points.get_offsets() for points in axis.collections])
    for name in ("ess_ksd", "n"):
        for height, value in zip(heights[:5], table[name], strict=False):
            assert [value, height] in offsets.tolist()
    low, high = axis.get_xlim()
    assert low < 4.0
    assert high > 1_000
    assert axis.get_title() == "nuts is worth 950 exact draws; 3 of 6 rejected"
    (legend,) = figure.legends
    shown = [text.get_text() for text in legend.get_texts()]
    assert shown == ["passed", "cannot tell", "rejected", "what is lost of the draws"]
    figure.canvas.draw()
    whole = figure.bbox
    for text in (*axis.get_yticklabels(), axis.title, axis.xaxis.label, legend):
        box = text.get_window_extent()
        assert box.x0 >= whole.x0
        assert box.x1 <= whole.x1
        assert box.y0 >= whole.y0
    plt.close("all")


def test_visuals_are_left_out_and_titles_say_what_was_found(table):
    collection = plot_ksd_compare(table.iloc[1:2], backend="none", visuals={"n": False})
    assert "n" not in collection.viz.children
    pictures = {"metropolis: cannot tell": table.iloc[1:2], "broken: not tested": table.iloc[5:]}
    for title, part in pictures.items():
        drawn = plot_ksd_compare(part, backend="matplotlib")
        assert drawn.get_target("ess_ksd", {}).get_title() == title
    plt.close("all")


def test_it_wants_the_table_of_a_comparison(table):
    with pytest.raises(ValueError, match=r"from ksd_compare; it has no column\(s\) 'n'"):
        plot_ksd_compare(table.drop(columns="n"))
    with pytest.raises(ValueError, match="must be a DataFrame from ksd_compare"):
        plot_ksd_compare({})
