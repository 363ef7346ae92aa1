"""Models of data sets that people know, as they would be written.

What stands between its docstring and its last line is what the page shows of a function.
"""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from benchmarks.ten_models.data import (
    DEATHS,
    DISASTERS,
    EFFECTS,
    ERRORS,
    FLOW,
    FROGS_IN_TANK,
    FROGS_LEFT,
    PREDATORS,
    PUTTS,
    PUTTS_IN,
    RAT_WEIGHTS,
    REMISSION,
    STILL_IN_REMISSION,
    TREATED,
    carbon_dioxide,
)

__all__ = [
    "angles",
    "angles_and_distances",
    "chances_by_distance",
    "common_growth",
    "curves_of_growth",
    "eight_schools",
    "frogs_all_alike",
    "frogs_by_tank",
    "horse_kicks",
    "lines_of_growth",
    "nile_with_a_step",
    "nile_without_change",
    "remission",
    "remission_without_treatment",
    "rising",
    "rising_with_seasons",
    "steady_rate",
    "trees",
    "wandering_rate",
]


def lines_of_growth() -> pm.Model:
    """Give every rat a line."""
    rat, days = np.repeat(np.arange(30), 5), np.tile([8.0, 15, 22, 29, 36], 30)
    with pm.Model(coords={"rat": np.arange(1, 31)}) as model:
        day = pm.Data("day", days)
        level, slope = pm.Normal("level", 240, 50), pm.Normal("slope", 6, 3)
        spread = pm.HalfNormal("spread", [30, 2], shape=2)
        levels = pm.Normal("levels", level, spread[0], dims="rat")
        slopes = pm.Normal("slopes", slope, spread[1], dims="rat")
        noise = pm.HalfNormal("noise", 20)
        mean = levels[rat] + slopes[rat] * (day - 22)
        pm.Normal("weight", mean, noise, observed=RAT_WEIGHTS)
    return model


def curves_of_growth() -> pm.Model:
    """Give every rat a parabola."""
    rat, days = np.repeat(np.arange(30), 5), np.tile([8.0, 15, 22, 29, 36], 30)
    with pm.Model(coords={"rat": np.arange(1, 31)}) as model:
        day = pm.Data("day", days)
        level, slope = pm.Normal("level", 240, 50), pm.Normal("slope", 6, 3)
        bend = pm.Normal("bend", 0, 0.1)
        spread = pm.HalfNormal("spread", [30, 2, 0.1], shape=3)
        levels = pm.Normal("levels", level, spread[0], dims="rat")
        slopes = pm.Normal("slopes", slope, spread[1], dims="rat")
        bends = bend + spread[2] * pm.Normal("offset", dims="rat")
        noise = pm.HalfNormal("noise", 20)
        mean = levels[rat] + slopes[rat] * (day - 22) + bends[rat] * (day - 22) ** 2
        pm.Normal("weight", mean, noise, observed=RAT_WEIGHTS)
    return model


def common_growth() -> pm.Model:
    """Let all parabolas have a cubic and a quartic term in common."""
    rat, days = np.repeat(np.arange(30), 5), np.tile([8.0, 15, 22, 29, 36], 30)
    with pm.Model(coords={"rat": np.arange(1, 31)}) as model:
        week = (pm.Data("day", days) - 22) / 7
        level, slope = pm.Normal("level", 240, 50), pm.Normal("slope", 40, 20)
        bend, cubic, quartic = pm.Normal("curve", 0, 5, shape=3)
        spread = pm.HalfNormal("spread", [30, 15, 5], shape=3)
        levels = pm.Normal("levels", level, spread[0], dims="rat")
        slopes = pm.Normal("slopes", slope, spread[1], dims="rat")
        bends = bend + spread[2] * pm.Normal("offset", dims="rat")
        mean = levels[rat] + slopes[rat] * week + bends[rat] * week**2
        mean += cubic * week**3 + quartic * week**4
        pm.Normal("weight", mean, pm.HalfNormal("noise", 20), observed=RAT_WEIGHTS)
    return model


def frogs_all_alike() -> pm.Model:
    """Let tadpoles survive alike in all tanks, with predators and without."""
    with pm.Model(coords={"tank": np.arange(1, 49)}) as model:
        predators = pm.Data("predators", PREDATORS, dims="tank")
        chance = pm.Beta("chance", 1, 1, shape=2)
        p = chance[predators]
        pm.Binomial("survivors", FROGS_IN_TANK, p, observed=FROGS_LEFT, dims="tank")
    return model


def frogs_by_tank() -> pm.Model:
    """Give every tank an effect of its own."""
    with pm.Model(coords={"tank": np.arange(1, 49)}) as model:
        predators = pm.Data("predators", PREDATORS, dims="tank")
        level = pm.Normal("level", 0, 1.5, shape=2)
        spread = pm.HalfNormal("spread", 1)
        offset = pm.Normal("offset", dims="tank")
        p = pm.math.invlogit(level[predators] + spread * offset)
        pm.Binomial("survivors", FROGS_IN_TANK, p, observed=FROGS_LEFT, dims="tank")
    return model


def chances_by_distance() -> pm.Model:
    """Let the log-odds of a putt fall with the distance."""
    with pm.Model(coords={"distance": np.arange(2, 21)}) as model:
        feet = pm.Data("feet", np.arange(2.0, 21.0), dims="distance")
        level, slope = pm.Normal("level", 0, 5), pm.Normal("slope", 0, 1)
        p = pm.math.invlogit(level + slope * feet)
        pm.Binomial("holed", PUTTS, p, observed=PUTTS_IN, dims="distance")
    return model


def angles() -> pm.Model:
    """Let a putt go in if its angle is precise enough (Gelman and Nolan 2002)."""
    ball, hole = 1.68 / 2 / 12, 4.25 / 2 / 12  # radii in feet
    with pm.Model(coords={"distance": np.arange(2, 21)}) as model:
        feet = pm.Data("feet", np.arange(2.0, 21.0), dims="distance")
        error = pm.HalfNormal("error", 0.1)  # of the angle, in radians
        p = pm.math.erf(pt.arcsin((hole - ball) / feet) / (error * np.sqrt(2)))
        pm.Binomial("holed", PUTTS, p, observed=PUTTS_IN, dims="distance")
    return model


def angles_and_distances() -> pm.Model:
    """Add an effect for every distance."""
    ball, hole = 1.68 / 2 / 12, 4.25 / 2 / 12
    with pm.Model(coords={"distance": np.arange(2, 21)}) as model:
        feet = pm.Data("feet", np.arange(2.0, 21.0), dims="distance")
        error = pm.HalfNormal("error", 0.1)
        p = pm.math.erf(pt.arcsin((hole - ball) / feet) / (error * np.sqrt(2)))
        spread, offset = pm.HalfNormal("spread", 1), pm.Normal("offset", dims="distance")
        p = pm.math.invlogit(pm.math.logit(p) + spread * offset)
        pm.Binomial("holed", PUTTS, p, observed=PUTTS_IN, dims="distance")
    return model


def eight_schools() -> pm.Model:
    """Pool effects in part, not centred."""
    with pm.Model(coords={"school": list("ABCDEFGH")}) as model:
        mu, tau = pm.Normal("mu", 0, 5), pm.HalfNormal("tau", 5)
        offset = pm.Normal("offset", dims="school")
        pm.Normal("effect", mu + tau * offset, ERRORS, observed=EFFECTS, dims="school")
    return model


def horse_kicks() -> pm.Model:
    """Let deaths have a Poisson distribution."""
    with pm.Model() as model:
        pm.Poisson("deaths", pm.Gamma("rate", 2, 2), observed=DEATHS)
    return model


def nile_without_change() -> pm.Model:
    """Let the flow have one mean."""
    with pm.Model(coords={"year": np.arange(1871, 1971)}) as model:
        pm.Data("time", np.arange(1871.0, 1971.0), dims="year")
        level, noise = pm.Normal("level", 900, 300), pm.HalfNormal("noise", 300)
        pm.Normal("flow", level, noise, observed=FLOW, dims="year")
    return model


def nile_with_a_step() -> pm.Model:
    """Let the mean of the flow change after 1898."""
    with pm.Model(coords={"year": np.arange(1871, 1971)}) as model:
        time = pm.Data("time", np.arange(1871.0, 1971.0), dims="year")
        before, after = pm.Normal("level", 900, 300, shape=2)
        noise = pm.HalfNormal("noise", 300)
        level = pm.math.where(time < 1899, before, after)
        pm.Normal("flow", level, noise, observed=FLOW, dims="year")
    return model


def rising() -> pm.Model:
    """Let the values follow a smooth curve."""
    years, parts = carbon_dioxide()
    with pm.Model() as model:
        time = pm.Data("time", years[:, None])
        scale, noise = pm.HalfNormal("scale", 20), pm.HalfNormal("noise", 5)
        process = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=5))
        process.marginal_likelihood("parts", X=time, y=parts, sigma=noise)
    return model


def rising_with_seasons() -> pm.Model:
    """Add a cycle that repeats every year."""
    years, parts = carbon_dioxide()
    with pm.Model() as model:
        time = pm.Data("time", years[:, None])
        scale, noise = pm.HalfNormal("scale", 20), pm.HalfNormal("noise", 5)
        season = pm.HalfNormal("season", 5)
        slow = scale**2 * pm.gp.cov.ExpQuad(1, ls=5)
        yearly = season**2 * pm.gp.cov.Periodic(1, period=1, ls=1)
        process = pm.gp.Marginal(cov_func=slow + yearly)
        process.marginal_likelihood("parts", X=time, y=parts, sigma=noise)
    return model


def remission_without_treatment() -> pm.Model:
    """Let all patients have the same distribution of times."""
    with pm.Model() as model:
        pm.Data("treated", TREATED)
        shape, level = pm.HalfNormal("shape", 2), pm.Normal("level", 2, 1)
        time = pm.Weibull.dist(shape, pm.math.exp(level), shape=42)
        upper = np.where(STILL_IN_REMISSION, REMISSION, np.inf)
        pm.Censored("weeks", time, lower=None, upper=upper, observed=REMISSION)
    return model


def remission() -> pm.Model:
    """Let the treatment stretch times."""
    with pm.Model() as model:
        treated = pm.Data("treated", TREATED)
        shape, level = pm.HalfNormal("shape", 2), pm.Normal("level", 2, 1)
        effect = pm.Normal("effect", 0, 1)
        time = pm.Weibull.dist(shape, pm.math.exp(level + effect * treated))
        upper = np.where(STILL_IN_REMISSION, REMISSION, np.inf)
        pm.Censored("weeks", time, lower=None, upper=upper, observed=REMISSION)
    return model


def steady_rate() -> pm.Model:
    """Let disasters happen at one rate."""
    with pm.Model(coords={"year": np.arange(1851, 1962)}) as model:
        pm.Data("time", np.arange(1851.0, 1962.0), dims="year")
        rate = pm.Exponential("rate", 1)
        pm.Poisson("disasters", rate, observed=DISASTERS, dims="year")
    return model


def wandering_rate() -> pm.Model:
    """Let the logarithm of the rate be a random walk."""
    with pm.Model(coords={"year": np.arange(1851, 1962)}) as model:
        pm.Data("time", np.arange(1851.0, 1962.0), dims="year")
        start, drift = pm.Normal("start", 1, 1), pm.HalfNormal("drift", 0.2)
        state = start + drift * pt.cumsum(pm.Normal("step", dims="year"))
        pm.Poisson("disasters", pm.math.exp(state), observed=DISASTERS, dims="year")
    return model


def trees() -> pm.Model:
    """Let regression trees find the mean."""
    import pymc_bart

    with pm.Model() as model:
        years = np.arange(1871.0, 1971.0)
        level = pymc_bart.BART("level", years[:, None], FLOW, m=20)
        pm.Normal("flow", level, pm.HalfNormal("noise", 300), observed=FLOW)
    return model
