"""What is known of ten data sets, which models are tried, and what a right answer would be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pymc as pm

from benchmarks.ten_models import models

__all__ = ["STORIES", "Story", "Version"]


@dataclass(frozen=True)
class Version:
    """A model of a data set.

    Attributes
    ----------
    label : str
        What is modelled.
    build : callable
        Returns the model.
    expected : str
        What the check of the model should say: "passed", "rejected" or "refused".
    covariates : str, optional
        The model's data by which observations are compared, by default those it uses.
    """

    label: str
    build: Callable[[], pm.Model]
    expected: str
    covariates: str | None = None


@dataclass(frozen=True)
class Story:
    """A data set, with models of it.

    Attributes
    ----------
    title : str
        What the data set is called.
    data : str
        What the data are, and where they come from.
    versions : tuple of Version
        The models.
    right : str
        Whether the answers are right, and why.
    drawn : int, optional
        The model whose check is drawn.
    """

    title: str
    data: str
    versions: tuple[Version, ...]
    right: str
    drawn: int | None = None


STORIES = (
    Story(
        "Rats",
        "The weights of 30 young rats on five days (Gelfand, Hills, Racine-Poon and Smith 1990), "
        "one of the first examples of a hierarchical model. In the textbooks every rat has a "
        "line.",
        (
            Version("a line for every rat", models.lines_of_growth, "rejected"),
            Version("a parabola for every rat", models.curves_of_growth, "rejected"),
            Version("a common curve of the fourth degree", models.common_growth, "passed"),
        ),
        "The lines, yes. The rats gain 50 g in the first week and 35 g in the last, so the data "
        "are below the lines on the first and the last day, which is what the check says. The "
        "parabolas are better but still wrong: the gains are 50, 43, 44 and 35 g, and a t-test of "
        "the quartic contrast, made for this one question, has t = −3.9 with 29 degrees of "
        "freedom. The misfit is about one gram, and the check, which looks for everything at "
        "once, just misses it. The draws of the last model are rejected by chance, which at "
        "the level of 5 % happens to one set of good draws in twenty.",
        drawn=0,
    ),
    Story(
        "Frogs",
        "Tadpoles of reed frogs in 48 tanks, half of them with predators, and how many survived "
        "(Vonesh and Bolker 2005).",
        (
            Version("all tanks alike", models.frogs_all_alike, "rejected"),
            Version("an effect for every tank", models.frogs_by_tank, "passed"),
        ),
        "Yes, but the p-value is not as small as it could be. Survival varies between tanks far "
        "more than it would by chance (Pearson's χ² of the 24 tanks with predators is 110), and "
        "in sparse tanks more tadpoles escape the predators: 70 % of those in tanks of 10, and 43 "
        "% of the others. A statistic made for overdispersion would leave no doubt. The second "
        "model has as many effects as observations. Checks that compare an observation with a "
        "posterior that has seen it are then of no use, but `ksd_ppc` compares it with each draw.",
        drawn=0,
    ),
    Story(
        "Golf putting",
        "Putts of professional golfers from 2 to 20 feet, and how many went in (Berry 1996). "
        "Gelman and Nolan (2002) replaced logistic regression by geometry: the ball goes in if "
        "its angle is precise enough, so that one parameter is left, the standard deviation of "
        "the angle.",
        (
            Version("logistic regression", models.chances_by_distance, "rejected"),
            Version("angles", models.angles, "rejected"),
            Version(
                "angles, and an effect for every distance", models.angles_and_distances, "passed"
            ),
        ),
        "Yes. Pearson's χ² of the logistic curve is 259 with 17 degrees of freedom. The words are "
        "rougher than the test: neighbouring distances are looked at together, and at two feet "
        "alone the data are above the curve. That the angles do not fit either may be a surprise, "
        "because their curve looks so good: their χ² is 62 with 18 degrees of freedom. The model "
        "expects 95.6 % of the putts from two feet to go in, and 1,346 of 1,443 did, or 93.3 %. "
        "The evidence of the check is weaker than that of χ², but its answer is the same.",
        drawn=0,
    ),
    Story(
        "Eight schools",
        "What coaching did in eight schools: eight estimates with their standard errors (Rubin "
        "1981).",
        (Version("partial pooling", models.eight_schools, "passed"),),
        "Yes, as far as eight numbers can tell. The difficulty of this example is its posterior; "
        "[Are these draws from the posterior?](sampler_quality.md) shows draws of it that are "
        "rejected.",
    ),
    Story(
        "Horse kicks",
        "Soldiers killed by horse kicks in ten corps of the Prussian army in each of twenty years "
        "(Bortkiewicz 1898), the best-known example of a Poisson distribution.",
        (Version("Poisson", models.horse_kicks, "passed"),),
        "Yes. The mean is 0.61 and the variance is 0.61. The same model of mites on apple leaves "
        "is rejected in the notebook on [counts](../notebooks/counts.ipynb).",
    ),
    Story(
        "The Nile",
        "The yearly flow of the Nile at Aswan from 1871 to 1970 (Cobb 1978).",
        (
            Version("one level", models.nile_without_change, "rejected", "time"),
            Version("a step", models.nile_with_a_step, "passed", "time"),
        ),
        "Yes. The mean flow fell from 1,098 to 850 after 1898, about when the first dam at Aswan "
        "was begun. Nothing in the first model depends on time, so the check has to be told what "
        "to compare by. Without `covariates` it looks only at the distribution of all flows "
        "together, which is not far from normal. The draws of the first model are rejected by "
        "chance.",
        drawn=0,
    ),
    Story(
        "A Gaussian process",
        "Ten years of carbon dioxide, month by month, simulated in the image of the measurements "
        "on Mauna Loa. To PyMC all 120 values are one draw of a multivariate normal distribution; "
        "`ksd_ppc` compares each value given those before it.",
        (
            Version("a slow trend", models.rising, "rejected"),
            Version("a trend and a yearly cycle", models.rising_with_seasons, "passed"),
        ),
        "Yes. The data were made with a yearly cycle. Without it the months that follow each "
        "other are off in the same direction, which the check finds by comparing each residual "
        "with the two before it.",
    ),
    Story(
        "A survival model",
        "Weeks in remission of 42 patients with acute leukaemia, half of them treated. Twelve of "
        "these were still in remission at the end of the study (Freireich and others 1963).",
        (
            Version("without treatment", models.remission_without_treatment, "rejected", "treated"),
            Version("with treatment", models.remission, "passed"),
        ),
        "Yes. Half of the treated patients relapsed within 23 weeks, and half of the others "
        "within 8. Times that were censored are completed by draws from the model, in the data "
        "and in the replicated data alike.",
        drawn=0,
    ),
    Story(
        "A state-space model",
        "British coal mining disasters in each year from 1851 to 1961 (Jarrett 1979).",
        (
            Version("a constant rate", models.steady_rate, "rejected", "time"),
            Version("a rate that drifts", models.wandering_rate, "passed", "time"),
        ),
        "Yes. There were 3.1 disasters a year in the first 40 years and 0.9 in the years after. "
        "Latent states need nothing special, because the counts are independent given a draw of "
        "the states.",
        drawn=0,
    ),
    Story(
        "Regression trees",
        "The Nile again, by Bayesian additive regression trees.",
        (Version("BART", models.trees, "refused"),),
        "Yes. The log density that `pymc_bart` gives its trees is a constant, because its sampler "
        "needs none. A test that took this constant for the density would be about another model.",
    ),
)
