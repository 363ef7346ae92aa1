"""Thinned containers stay what they were."""

import numpy as np
import xarray as xr

from pymc_ksd.samples.containers import drawn_independently, thinned


def posterior(n_draws=10):
    return xr.Dataset({"x": (("chain", "draw"), np.arange(float(n_draws))[None])})


def test_groups_are_thinned_alike_and_what_they_say_of_draws_is_kept():
    groups = {
        "posterior": posterior(),
        "unconstrained_posterior": posterior(),
        "pathfinder": xr.Dataset({"pareto_k": 0.3}),
    }
    tree = xr.DataTree.from_dict(groups)
    found = thinned(tree, 4)
    assert found["posterior"]["x"].values.tolist() == [[0, 4, 8]]
    assert found["unconstrained_posterior"].sizes["draw"] == 3
    assert drawn_independently(tree)
    assert drawn_independently(found)
    assert tree["posterior"].sizes["draw"] == 10


def test_datasets_stay_datasets():
    assert thinned(posterior(), 5)["x"].values.tolist() == [[0, 5]]
