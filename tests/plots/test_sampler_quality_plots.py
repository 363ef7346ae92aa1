"""Plots of contributions and of evolution."""

from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import Score, ksd, ksd_evolution


def test_contributions_of_many_parameters_show_the_lowest(rng):
    score = Score.from_callable(lambda x: -x, dim=120)
    values = rng.normal(size=(2, 200, 120))
    values[..., 100] += 1
    measures = ksd(score, xr.Dataset({"x": (("chain", "draw", "k"), values)}))
    collection = pymc_ksd.plot_ksd_contributions(measures, backend="matplotlib")
    figure = collection.viz["figure"].item()
    (axis,) = figure.axes
    labels = [tick.get_text() for tick in axis.get_yticklabels()]
    assert len(labels) == 50
    assert "x[100]" in labels
    assert "the 50 lowest of 120 parameters" in axis.get_xlabel()
    assert axis.get_title().startswith("x[100]: ")
    assert axis.get_xlim()[0] == 0
    # Labels of neighbours do not touch.
    figure.canvas.draw()
    boxes = [tick.get_window_extent() for tick in axis.get_yticklabels()]
    heights = sorted((box.y0, box.y1) for box in boxes)
    assert all(low[1] <= high[0] for low, high in pairwise(heights))
    plt.close(figure)


@pytest.mark.parametrize("backend", ["matplotlib", "bokeh", "plotly", "none"])
def test_plots_of_sampler_quality_on_every_backend(labelled, backend):
    model, posterior = labelled
    evolution = pymc_ksd.plot_ksd_evolution(ksd_evolution(model, posterior), backend=backend)
    for visual in ("chain_0", "chain_1", "pooled", "ideal", "xlabel", "ylabel", "title"):
        assert visual in evolution.viz.children, visual
    contributions = pymc_ksd.plot_ksd_contributions(ksd(model, posterior), backend=backend)
    for visual in ("ess_ksd", "ess_bulk", "xlabel", "title"):
        assert visual in contributions.viz.children, visual


def test_plot_of_contributions_shows_every_parameter_at_its_place(labelled):
    model, posterior = labelled
    measures = ksd(model, posterior)
    collection = pymc_ksd.plot_ksd_contributions(measures, backend="matplotlib")
    axes = collection.get_target("ess", {})
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert labels == ["mu", "tau", "theta[A]", "theta[B]", "weights"]
    heights = axes.get_yticks()
    dots = next(points.get_offsets() for points in axes.collections if len(points.get_offsets()))
    places = {label: heights[labels.index(label)] for label in labels}
    offsets = np.concatenate([points.get_offsets() for points in axes.collections])
    for label, array in {
        "mu": measures["mu"],
        "theta[B]": measures["theta"].sel(school="B"),
    }.items():
        for diagnostic in ("ess_ksd", "ess_bulk"):
            point = [float(array.sel(diagnostic=diagnostic)), places[label]]
            assert np.isclose(offsets, point).all(axis=1).any(), (label, diagnostic)
    assert len(dots) == 5


def test_plot_of_contributions_without_autocorrelation(rng):
    score = Score.from_callable(lambda x: -x, 2)
    draws = xr.Dataset({"x": (("chain", "draw", "k"), rng.normal(size=(2, 3, 2)))})
    with pytest.warns(UserWarning, match="Only 3 draws"):
        measures = ksd(score, draws)
    assert np.isnan(measures["x"].sel(diagnostic="ess_bulk")).all()
    axes = pymc_ksd.plot_ksd_contributions(measures, backend="matplotlib").get_target("ess", {})
    assert ": the lowest ess_ksd (" in axes.get_title()


def test_plots_of_sampler_quality_check_their_input(labelled):
    with pytest.raises(ValueError, match="`evolution` must be a dataset from ksd_evolution"):
        pymc_ksd.plot_ksd_evolution(xr.Dataset())
    with pytest.raises(ValueError, match="`measures` must be a dataset from ksd"):
        pymc_ksd.plot_ksd_contributions(xr.Dataset())
