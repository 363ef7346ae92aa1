"""Bounds for numbers of rejections, from the binomial distribution.

Short versions of the measurements that ``benchmarks`` repeats at full length for the pages.
"""

from scipy import stats

#: How seldom chance alone leaves a bound.
CHANCE = 0.001


def most(replications, share=0.05):
    """Return the number of rejections that is exceeded once in 1,000 times, or less often."""
    return int(stats.binom.isf(CHANCE, replications, share))


def fewest(replications, share=0.05):
    """Return the number of rejections that is fallen short of once in 1,000 times, or less."""
    return int(stats.binom.ppf(CHANCE, replications, share))


def keeps_its_level(rates):
    """Whether these rates together are what a test at level 5 % rejects."""
    rejections = sum(rate.rejections for rate in rates)
    replications = sum(rate.replications for rate in rates)
    return fewest(replications) <= rejections <= most(replications)
