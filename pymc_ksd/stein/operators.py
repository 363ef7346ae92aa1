"""The Stein operators that there are, by the names that densities give."""

from __future__ import annotations

from pymc_ksd.stein.birth_death import BirthDeath
from pymc_ksd.stein.langevin import Langevin
from pymc_ksd.stein.operator import SteinOperator

__all__ = ["OPERATORS", "register_operator"]

OPERATORS: dict[str, SteinOperator] = {}


def register_operator(operator: SteinOperator) -> None:
    """Make an operator known under its name."""
    OPERATORS[operator.name] = operator


for _operator in (Langevin(), BirthDeath()):
    register_operator(_operator)
del _operator
