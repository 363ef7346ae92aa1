"""The plot of what means and standard deviations are off by."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import Score, ksd_moments, plot_ksd_moments
from pymc_ksd.diagnostics.results import Biases, Uncorrected


def moments(rng, dim=3, shift=0.3, scale=1.0, n=250, **options):
    """Moments of independent normal draws, of which the second parameter is wrong."""
    score = Score.from_callable(lambda x: -x, dim, names=[f"x[{k}]" for k in range(dim)])
    values = rng.normal(size=(4, n, dim))
    values[..., dim // 2] = values[..., dim // 2] * scale + shift
    draws = xr.Dataset({f"x[{k}]": (("chain", "draw"), values[..., k]) for k in range(dim)})
    return ksd_moments(score, draws, **options)


def axis_of(result, **options):
    collection = plot_ksd_moments(result, backend="matplotlib", **options)
    return collection.get_target("bias", {}), collection.viz["figure"].item()


@pytest.mark.parametrize("margin", [None, 0.1])
@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly", "none"])
def test_plot_draws_every_visual_on_every_backend(backend, margin, rng):
    collection = plot_ksd_moments(moments(rng, margin=margin), backend=backend)
    visuals = ["zero", "mean", "mean_interval", "sd_by_chance", "sd_interval_by_chance"]
    for visual in [*visuals, "xlabel", "title"]:
        assert visual in collection.viz.children, visual
    assert ("margin" in collection.viz.children) == (margin is not None)
    plt.close("all")


def test_plot_shows_every_number_at_its_place(rng):
    result = moments(rng, scale=0.8)
    axis, figure = axis_of(result)
    labels = [tick.get_text() for tick in axis.get_yticklabels()]
    heights = dict(zip(labels, axis.get_yticks(), strict=True))
    assert labels[0] == "x[1]"  # the worst comes first, above the others
    assert heights["x[1]"] == max(heights.values())
    offsets = np.concatenate([points.get_offsets() for points in axis.collections])
    for index in range(3):
        own = result[f"x[{index}]"]
        for name, up in (("bias_mean", 1), ("bias_sd", -1)):
            found = np.isclose(offsets[:, 0], float(own.sel(diagnostic=name)))
            distance = offsets[found, 1] - heights[f"x[{index}]"]
            assert 0 < up * distance.item() < 0.5
    assert axis.get_title() == result.attrs["conclusion"].split(". ", 1)[1].removesuffix(".")
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "mean, in posterior sd",
        "sd (0.1 is 10 %)",
        "not significant",
    ]
    plt.close(figure)


def test_intervals_hold_what_draws_are_off_by(rng):
    """In 95 of 100 samples, for means and standard deviations, right ones and wrong ones."""
    held = []
    for _ in range(100):
        biases = Biases.of(moments(rng, dim=2, shift=0.2, scale=0.9, n=100))
        for label, true in {"x[0]": [0.0, 0.0], "x[1]": [0.2, -0.1]}.items():
            row = biases.labels.index(label)
            held.append(np.abs(biases.sizes[row] - true) <= 1.96 * biases.errors[row])
    rates = np.mean(held, axis=0)
    assert (rates > 0.9).all(), rates
    assert (rates < 0.99).all(), rates


def test_plot_takes_the_standard_errors_of_the_result(rng):
    result = moments(rng, scale=0.8)
    result["x[1]"].loc[{"diagnostic": ["mcse_bias_mean", "mcse_bias_sd"]}] = [0.5, 0.25]
    axis, figure = axis_of(result)
    ends = np.concatenate([line.get_xdata() for line in axis.lines])
    for name, error in (("bias_mean", 0.5), ("bias_sd", 0.25)):
        bias = float(result["x[1]"].sel(diagnostic=name))
        for side in (-1, 1):
            assert np.isclose(ends, bias + side * 1.96 * error).any()
    plt.close(figure)


@pytest.mark.parametrize("scale", [0.7, 1.0, 1.4])
def test_standard_errors_of_biases_are_those_of_normal_draws(scale, rng):
    """Of the mean sd / sqrt(n), and of the standard deviation sd / sqrt(2 n)."""
    found = moments(rng, dim=1, shift=0.0, scale=scale, n=1_000)["x[0]"]
    mean, sd = found.sel(diagnostic=["mcse_bias_mean", "mcse_bias_sd"]).values
    assert mean == pytest.approx(scale / np.sqrt(4_000), rel=0.1)
    assert sd == pytest.approx(scale / np.sqrt(8_000), rel=0.1)


def test_standard_errors_hold_where_features_explain_next_to_nothing(rng):
    """Then z-scores are those of other functions, and their errors none of the bias."""
    score = Score.from_callable(lambda x: -np.sin(8 * x), 3)
    values = rng.uniform(-9 * np.pi, 9 * np.pi, size=(4, 250, 3))
    draws = xr.Dataset({"x": (("chain", "draw", "k"), values)})
    found = ksd_moments(score, draws)["x"]
    mcse, sd, error = (found.sel(diagnostic=name) for name in ("mcse_mean", "sd", "mcse_bias_mean"))
    np.testing.assert_allclose(error, mcse / sd, rtol=0.1)


@pytest.mark.parametrize("dim", [1, 10, 200])
def test_plot_is_legible_for_few_and_for_many(dim, rng):
    axis, figure = axis_of(moments(rng, dim=dim, margin=0.1))
    labels = [tick.get_text() for tick in axis.get_yticklabels()]
    assert len(labels) == min(dim, 30)
    assert labels[0] == f"x[{dim // 2}]"
    assert ("the 30 worst of 200 parameters" in axis.get_xlabel()) == (dim == 200)
    figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in axis.get_yticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] for low, high in pairwise(heights))
    # Nothing is cut off, and the legend lies below everything else.
    whole = figure.bbox
    texts = [*axis.get_yticklabels(), axis.title, axis.xaxis.label, figure.legends[0]]
    for box in (text.get_window_extent() for text in texts):
        assert box.x0 >= whole.x0
        assert box.x1 <= whole.x1
        assert box.y0 >= whole.y0
        assert box.y1 <= whole.y1
    assert figure.legends[0].get_window_extent().y1 <= axis.xaxis.label.get_window_extent().y0 + 1
    plt.close(figure)


def test_plot_says_what_cannot_be_corrected(rng):
    result = moments(rng, dim=2, shift=3.0)
    assert result["x[0]"].sel(diagnostic="uncorrected") == Uncorrected.OTHERS_TOO_FAR
    assert np.isnan(result["x[1]"].sel(diagnostic="bias_mean"))
    axis, figure = axis_of(result)
    assert axis.get_yticklabels()[0].get_text() == "x[1] (no correction)"
    assert axis.get_title() == "x[1]: too far off to be corrected"
    plt.close(figure)


@pytest.mark.parametrize(
    ("attrs", "title"),
    [
        ({}, "No significant error in any mean or sd"),
        ({"status": "cannot tell"}, "Cannot tell whether means and standard deviations are right"),
        (
            {"status": "certified", "margin": 0.1, "target": "posterior"},
            "Every mean is within 0.1 sd and every sd within 10 % of the posterior's",
        ),
    ],
)
def test_titles(attrs, title, rng):
    axis, figure = axis_of(moments(rng, shift=0.0).assign_attrs(attrs))
    assert axis.get_title() == title
    plt.close(figure)


def test_plot_leaves_visuals_out_and_comes_back_from_a_file(rng, tmp_path):
    result = moments(rng)
    collection = plot_ksd_moments(
        result, backend="matplotlib", visuals={"legend": False, "mean": False}
    )
    assert "mean" not in collection.viz.children
    assert not collection.viz["figure"].item().legends
    with pytest.raises(ValueError, match=r"`visuals` must have keys among 'margin'.*got 'bars'"):
        plot_ksd_moments(result, backend="none", visuals={"bars": False})
    result.to_netcdf(tmp_path / "moments.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "moments.nc", engine="h5netcdf") as tree:
        again = plot_ksd_moments(tree, backend="matplotlib")
        title = again.get_target("bias", {}).get_title()
    assert title == collection.get_target("bias", {}).get_title()
    plt.close("all")


def test_plot_wants_moments(rng):
    measures = pymc_ksd.ksd(
        Score.from_callable(lambda x: -x, 1),
        xr.Dataset({"x": (("chain", "draw"), rng.normal(size=(2, 50)))}),
    )
    with pytest.raises(ValueError, match=r"must be a dataset from ksd_moments.*says 'ksd'"):
        plot_ksd_moments(measures)
