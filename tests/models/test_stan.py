"""Stan programs: one contract for BridgeStan and PyStan, and eight schools from every source."""

import numpy as np
import pytest
import xarray as xr

from benchmarks.first_answer import eight_schools
from pymc_ksd import Score, compile_score, ksd_compare, ksd_test
from tests.models.test_sources import EFFECTS, ERRORS, schools

PROGRAM = """
data { int<lower=0> J; array[J] real y; array[J] real<lower=0> sigma; }
parameters { real mu; real<lower=0> tau; array[J] real theta; }
transformed parameters { real twice = 2 * tau; }
model { mu ~ normal(0, 5); tau ~ cauchy(0, 5); theta ~ normal(mu, tau); y ~ normal(theta, sigma); }
generated quantities { array[30] real replicate = normal_rng(rep_vector(0, 30), 1); }
"""


class HandWritten:
    """What BridgeStan offers, of a posterior whose log density is known by hand.

    Gamma(3, 2) for ``scale``, and normal distributions for a matrix ``m`` of two rows.
    """

    spread = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])

    def param_unc_num(self):
        return 7

    def param_names(self, include_tp=False, include_gq=False):
        return ["scale", *(f"m.{i}.{j}" for j in (1, 2, 3) for i in (1, 2))]

    def param_unconstrain(self, theta):
        if theta[0] <= 0:
            raise RuntimeError("lb_free: lower bounded variable is not positive")
        return np.concatenate([[np.log(theta[0])], theta[1:]])

    def param_constrain(self, theta_unc):
        return np.concatenate([[np.exp(theta_unc[0])], theta_unc[1:]])

    def log_density_gradient(self, theta_unc, propto=True, jacobian=True):
        z, m = theta_unc[0], theta_unc[1:]
        spread = self.spread.ravel(order="F")
        jacobian_part = z if jacobian else 0.0
        height = 2 * z - 2 * np.exp(z) + jacobian_part - ((m / spread) ** 2).sum() / 2
        slope = 2 - 2 * np.exp(z) + (1 if jacobian else 0)
        return height, np.concatenate([[slope], -m / spread**2])


def hand_draws(rng, scale=1.0):
    matrix = HandWritten.spread * rng.normal(size=(4, 100, 2, 3)) * scale
    return xr.Dataset(
        {
            "scale": (("chain", "draw"), rng.gamma(3.0, 0.5, size=(4, 100))),
            "m": (("chain", "draw", "i", "j"), matrix),
        }
    )


def test_a_program_of_bridgestan(rng):
    score = Score.from_stan(HandWritten())
    assert score.labels == ["scale", *(f"m[{i}]" for i in range(6))]
    draws = hand_draws(rng)
    samples = {name: draws[name].stack(row=("chain", "draw")) for name in draws}
    samples = {name: one.transpose("row", ...).values for name, one in samples.items()}
    points = score.unconstrain(samples)
    np.testing.assert_allclose(points[:, 0], np.log(samples["scale"]))
    np.testing.assert_array_equal(points[:, 2], samples["m"][:, 1, 0])  # first index fastest
    back = score._target.constrained(points)
    np.testing.assert_allclose(back["m"], samples["m"])
    np.testing.assert_allclose(score(points)[:, 0], 3 - 2 * samples["scale"])
    assert ksd_test(score, draws, random_seed=1).attrs["status"] == "passed"
    assert ksd_test(score, hand_draws(rng, 2.0), random_seed=1).attrs["status"] == "rejected"
    draws["scale"][1, 3] = -1.0
    with pytest.raises(ValueError, match="1 of 400 draws lie outside the support of 'scale'"):
        ksd_test(score, draws, random_seed=1)
    # And where all of them do, which is told in the row of a comparison.
    table = ksd_compare(
        score, {"outside": -hand_draws(rng), "inside": hand_draws(rng)}, random_seed=1
    )
    assert table["status"].tolist() == ["passed", "not tested"]
    assert "The Stan program refuses all points: lb_free" in table.loc["outside", "reason"]


class Simplex:
    """A simplex of three shares, by the logarithm of ratios to the last, and a bound on ``x``."""

    def param_unc_num(self):
        return 3

    def param_names(self, include_tp=False, include_gq=False):
        return ["share.1", "share.2", "share.3", "x"]

    def param_unconstrain(self, theta):
        return np.array([*np.log(theta[:2] / theta[2]), np.log(theta[3] - theta[0])])

    def param_constrain(self, theta_unc):
        weights = np.exp([*theta_unc[:2], 0.0])
        share = weights / weights.sum()
        return np.array([*share, share[0] + np.exp(theta_unc[2])])

    def log_density_gradient(self, theta_unc, propto=True, jacobian=True):
        return -(theta_unc**2).sum() / 2, -theta_unc


def test_coordinates_belong_to_the_first_parameter_that_moves(rng):
    score = Score.from_stan(Simplex())
    assert score.labels == ["share[0]", "share[1]", "x"]
    points = rng.normal(size=(5, 3))
    samples = score._target.constrained(points)
    assert samples["share"].shape == (5, 3)
    np.testing.assert_allclose(score._target.unconstrained(samples), points)


def test_what_is_no_program_is_refused():
    with pytest.raises(TypeError, match="A fit does not know its log density"):
        Score.from_stan("program")


class AsBridgeStan:
    """BridgeStan's functions, by those of PyStan."""

    def __init__(self, model, names, dim):
        self.model, self.names, self.dim = model, names, dim

    def param_unc_num(self):
        return self.dim

    def param_names(self, include_tp=False, include_gq=False):
        return self.names

    def param_unconstrain(self, theta):
        groups, arrays = {}, {}
        for name, value in zip(self.names, theta, strict=True):
            groups.setdefault(name.split(".")[0], []).append((name, value))
        for name, parts in groups.items():
            places = [tuple(int(i) - 1 for i in label.split(".")[1:]) for label, _ in parts]
            array = np.zeros(tuple(np.max(places, axis=0) + 1) if places[0] else ())
            for place, (_, value) in zip(places, parts, strict=True):
                array[place] = value
            arrays[name] = array.tolist()
        return np.array(self.model.unconstrain_pars(arrays))

    def param_constrain(self, theta_unc):
        found = self.model.constrain_pars(list(theta_unc), include_tparams=False, include_gqs=False)
        return np.array(found)

    def log_density_gradient(self, theta_unc, propto=True, jacobian=True):
        assert jacobian
        height = self.model.log_prob(list(theta_unc), adjust_transform=True)
        return height, np.array(self.model.grad_log_prob(list(theta_unc)))


def built():
    stan = pytest.importorskip("stan")
    data = {"J": 8, "y": EFFECTS.tolist(), "sigma": ERRORS.tolist()}
    return stan.build(PROGRAM, data=data, random_seed=1)


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore")  # of PyStan's server, about the libraries that it uses
def test_eight_schools_have_one_answer_whatever_scores_come_from(rng, capfd):
    """And PyStan and BridgeStan keep one contract."""
    import nutpie

    model, _ = eight_schools()
    compiled = nutpie.compile_pymc_model(model)
    options = {"store_gradient": True, "store_unconstrained": True, "progress_bar": False}
    draws = nutpie.sample(compiled, draws=150, tune=400, chains=2, seed=1, **options)
    posterior = draws["posterior"]
    posterior = posterior.to_dataset() if isinstance(posterior, xr.DataTree) else posterior
    program = built()
    stan = Score.from_stan(program)
    own = list(program.constrained_param_names)[:10]  # parameters come first
    adapted = Score.from_stan(AsBridgeStan(program, own, 10))
    ours = compile_score(model)
    assert stan.labels == adapted.labels == ours.labels
    points = rng.normal(size=(4, 10)) / 2
    for one in (stan, adapted):
        np.testing.assert_allclose(one(points), ours(points), rtol=1e-9)
        samples = one._target.constrained(points)
        np.testing.assert_allclose(one._target.unconstrained(samples), points, atol=1e-9)
    with pytest.raises(ValueError, match="outside the support"):
        stan.unconstrain({**samples, "tau": samples["tau"] * [1, -1, 1, 1]})
    with pytest.raises(ValueError, match=r"refuses all points: .*lb_free"):
        stan.unconstrain({**samples, "tau": -samples["tau"]})

    theirs = Score.from_numpyro(schools, ERRORS, y=EFFECTS)
    results = {
        "PyMC": ksd_test(model, posterior, random_seed=1),
        "nutpie": ksd_test(model, draws, random_seed=1),
        "draws alone": ksd_test(Score.from_draws(draws), draws, random_seed=1),
        "NumPyro": ksd_test(theirs, posterior, random_seed=1),
        "Stan": ksd_test(stan, posterior, random_seed=1),
    }
    assert {name: one.attrs["scores"] for name, one in results.items()} == {
        "PyMC": "model",
        "nutpie": "stored",
        "draws alone": "stored",
        "NumPyro": "model",
        "Stan": "model",
    }
    first = results["PyMC"]
    for one in results.values():
        assert list(one["member"].values) == list(first["member"].values)
        for name in ("statistic", "p_value", "ksd", "ess_ksd", "member_statistic"):
            np.testing.assert_allclose(one[name], first[name], rtol=1e-6)
