"""Arguments that are the same everywhere, and former names that still work."""

import inspect

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd
from pymc_ksd import Score, ksd_ppc, ksd_report, ksd_test

RANDOM = ["ksd_test", "ksd", "ksd_evolution", "ksd_modes", "ksd_ppc", "ksd_report"]
RANDOM += ["ksd_compare"]
#: These sum over no pairs or parts, which a cluster could share.
ALONE = ["ksd_modes"]
#: These draw no random numbers.
FUNCTIONS = [*RANDOM, "ksd_moments", "ksd_summary"]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_arguments_are_called_the_same_everywhere(name):
    parameters = inspect.signature(getattr(pymc_ksd, name)).parameters
    assert list(parameters)[:2] == ["model", "data"]
    assert ("random_seed" in parameters) == (name in RANDOM)
    if name in RANDOM:
        assert parameters["random_seed"].default is None
    assert parameters["progressbar"].default is True
    assert parameters["compile_kwargs"].default is None
    assert ("client" in parameters) == (name not in ALONE)
    if name not in ALONE:
        assert parameters["client"].default is None
    positional = [p for p in parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert len(positional) == 2


def normal_model():
    with pm.Model() as model:
        mu = pm.Normal("mu")
        pm.Normal("y", mu, 1.0, observed=np.linspace(-1, 1, 12))
    values = np.random.default_rng(1).normal(0, 0.28, size=(2, 50))
    return model, xr.Dataset({"mu": (("chain", "draw"), values)})


@pytest.mark.parametrize("function", [ksd_ppc, ksd_report])
def test_the_former_name_of_data_works_with_a_warning(function):
    model, draws = normal_model()
    with pytest.warns(FutureWarning, match="`idata` of .* is called `data` now") as caught:
        old = function(model, idata=draws, random_seed=1)
    assert caught[0].filename == __file__
    new = function(model, data=draws, random_seed=1)
    old, new = (one if function is ksd_ppc else one.test for one in (old, new))
    assert old.equals(new)
    with pytest.raises(TypeError, match="got `data` and, under its former name, `idata`"):
        function(model, draws, idata=draws)
    with pytest.raises(TypeError, match="unexpected keyword argument 'typo'"):
        function(model, draws, typo=1)


def test_coordinates_of_a_callable_can_have_names(rng):
    score = Score.from_callable(
        lambda x: -x, 2, names=["mu", "tau"], simulate=lambda n, g: g.normal(size=(n, 2))
    )
    assert score.labels == ["mu", "tau"]
    table = rng.normal(size=(40, 2))
    expected = ksd_test(Score.from_callable(lambda x: -x, 2), table, random_seed=1)
    mapping = {"tau": table[:, 1], "mu": table[:, 0]}
    dataset = xr.Dataset({name: ("i", values) for name, values in mapping.items()})
    for data in (table, mapping, dataset):
        result = ksd_test(score, data, random_seed=1)
        np.testing.assert_allclose(result["statistic"], expected["statistic"])
        parts = [float(result["mu"]), float(result["tau"])]
        np.testing.assert_allclose(parts, expected["x"])
    draws = xr.Dataset({name: (("chain", "draw"), v[None]) for name, v in mapping.items()})
    assert list(pymc_ksd.ksd_summary(score, draws).index) == ["tau", "mu"]
    simulated = ksd_test(score, table, null="parametric", n_bootstrap=9, random_seed=1)
    assert simulated.attrs["null"] == "parametric"
    with pytest.raises(ValueError, match="`names` must be 2 different names"):
        Score.from_callable(lambda x: -x, 2, names=["mu", "mu"])


def test_score_has_no_more_than_its_public_face():
    face = {name for name in dir(Score.from_callable(lambda x: -x, 1)) if not name.startswith("_")}
    sources = {"from_callable", "from_draws", "from_jax", "from_numpyro", "from_stan"}
    assert face == {"dim", "labels", "simulate", "unconstrain"} | sources
