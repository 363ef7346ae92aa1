"""All models of the zoo, by family."""

from tests.zoo import (  # noqa: F401
    data_handling,
    few_numbers,
    glm,
    hierarchical,
    mixtures,
    of_bambi,
    spatial,
    special,
    survival,
    time_series,
)
from tests.zoo.registry import ENTRIES

__all__ = ["ENTRIES"]
