"""The library's own tests, by the names that tables and figures show."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.paper.trials import Measured
from pymc_ksd import Score, ksd_test

__all__ = ["EXTENSIONS", "PAPER_METHODS", "stein_tests"]

_TESTS: dict[str, dict[str, Any]] = {
    # The paper's: RBF kernel; its median bandwidth and 1,000 replicates are the defaults.
    "KSD-U": {"kernel": "rbf"},
    "KSD-linear": {"kernel": "rbf", "statistic": "linear"},
    # Beyond it.
    "KSD-U, IMQ": {"kernel": "imq"},
    # Exact for any number of replicates m for which 0.05 (m + 1) is a whole number.
    "KSD-U, parametric": {"kernel": "rbf", "null": "parametric", "n_bootstrap": 19},
    "KSD-block": {"kernel": "rbf", "statistic": "block"},
    "KSD-U, whitened": {"kernel": "rbf", "scale": "cov"},
}
PAPER_METHODS = ("KSD-U", "KSD-linear")
EXTENSIONS = ("KSD-U, IMQ", "KSD-U, parametric", "KSD-block")


def stein_tests(
    score: Score,
    data: Any,
    rng: np.random.Generator,
    methods: Iterable[str] = PAPER_METHODS + EXTENSIONS,
) -> dict[str, Measured]:
    """Test data with the library in several ways.

    Parameters
    ----------
    score : Score
        The tested model, compiled.
    data : array_like
        The sample.
    rng : numpy.random.Generator
        Randomness of the bootstraps.
    methods : iterable of str
        Which tests.

    Returns
    -------
    dict
        Of each the p-value and the statistic.
    """
    found = {}
    for method in methods:
        result = ksd_test(score, data, random_seed=rng, progressbar=False, **_TESTS[method])
        found[method] = Measured(float(result["p_value"]), float(result["statistic"]))
    return found
