"""Shares of rejections with their Monte Carlo error, and the Markdown pages that show them."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pymc_ksd import Score, ksd_test

__all__ = ["ALPHA", "Rate", "count_rejections", "generator", "header", "page"]

ALPHA = 0.05


@dataclass(frozen=True)
class Rate:
    """A share of rejections in a number of replications, with its Monte Carlo standard error."""

    rejections: int
    replications: int

    @property
    def rate(self) -> float:
        """The share."""
        return self.rejections / self.replications

    @property
    def error(self) -> float:
        """Its standard error."""
        return float(np.sqrt(self.rate * (1 - self.rate) / self.replications))

    def __str__(self) -> str:
        """Show both in per cent."""
        return f"{100 * self.rate:.1f} ± {100 * self.error:.1f}"


def generator(name: str, seed: int) -> np.random.Generator:
    """Return a source of randomness that depends on a name and a seed."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])


def count_rejections(
    trial: Callable[[], tuple[Score, Any]],
    replications: int,
    rng: np.random.Generator,
    options: dict[str, Any],
) -> Rate:
    """Test what `trial` returns, many times, and count p-values of at most 0.05."""
    rejections = 0
    for _ in range(replications):
        score, data = trial()
        result = ksd_test(score, data, random_seed=rng, progressbar=False, **options)
        rejections += float(result["p_value"]) <= ALPHA
    return Rate(rejections, replications)


def header(*columns: str) -> list[str]:
    """Return the first two lines of a Markdown table."""
    return [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]


def page(sections: Sequence[str | list[str]]) -> str:
    """Join paragraphs, and tables given as lists of lines."""
    return "\n\n".join("\n".join(s) if isinstance(s, list) else s for s in sections) + "\n"
