"""Modes in words: where they are, what they hold, and what a test of draws found."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import shown_p_value
from pymc_ksd.models.target import Target, Variable
from pymc_ksd.stats.local_modes import Modes

_ORDINALS = ("first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth")
#: Coordinates that say where a mode is, and the part of the largest distance they must have.
_NAMED, _FAR = 2, 0.5


def in_words(target: Target, modes: Modes) -> list[str]:
    """Say where each mode is, by the parameters in which it is furthest from the highest other."""
    values = target.constrained(modes.locations)
    sds = np.sqrt((modes.roots**2).sum(axis=2)) * modes.scales
    found = []
    for mode in range(modes.number):
        other = 0 if mode else modes.number - 1
        between = modes.locations[mode] - modes.locations[other]
        distances = np.abs(between) / np.minimum(sds[mode], sds[other])
        names = []
        for column in np.argsort(-distances, kind="stable")[:_NAMED]:
            if distances[column] >= _FAR * distances.max():
                variable, index = _element(target, int(column), values, mode, other)
                own = values[variable.name]
                value = _rounded(own[(mode, *index)], own[(other, *index)])
                names.append(f"{variable.element(index)} = {value:g}")
        found.append(", ".join(dict.fromkeys(names)))
    return found


def _rounded(value: float, other: float) -> float:
    """Round a number to two digits of what it differs by from another, or of its own."""
    size = abs(value - other) or abs(value)
    if not size > 0:
        return 0.0
    # Adding zero takes the sign from minus zero.
    return round(float(value), 1 - int(np.floor(np.log10(size)))) + 0.0


def _element(
    target: Target, column: int, values: dict[str, np.ndarray], mode: int, other: int
) -> tuple[Variable, tuple[int, ...]]:
    """Return the element of a variable that an unconstrained coordinate belongs to.

    Where it belongs to no single one, the element in which two modes differ most.
    """
    variable = target.variable_of(column)
    start = sum(v.unconstrained_size for v in target.variables[: target.variables.index(variable)])
    place = column - start
    if not variable.elementwise:
        own = values[variable.name]
        place = int(np.abs(own[mode] - own[other]).argmax())
    return variable, tuple(int(i) for i in np.unravel_index(place, variable.shape))


def named(result: xr.Dataset, mode: int) -> str:
    """Name a mode by its number and place."""
    number = _ORDINALS[mode] if mode < len(_ORDINALS) else f"{mode + 1}th"
    return f"{number} mode near {result['place'].values[mode]}"


def percent(share: float) -> str:
    """Say what part of the whole a mode holds."""
    if np.isnan(share):
        return "an unknown part"
    if share < 0.01:
        return "less than 1 %"
    return f"about {100 * share:.0f} %" if share < 0.99 else "nearly all"


def draws_there(share: float) -> str:
    """Say what part of the draws is at a mode."""
    if share == 0:
        return "no draw is there"
    if share == 1:
        return "all draws are there"
    shown = "less than 1 %" if share < 0.01 else f"{100 * share:.0f} %"
    return f"{shown} of the draws are there"


def about_mode(result: xr.Dataset, mode: int) -> str:
    """Say what a mode holds of the posterior and, where there are draws, of these."""
    whole = "posterior" if result.attrs.get("target") == "posterior" else "density"
    held = percent(float(result["share_of_posterior"].values[mode]))
    text = f"{named(result, mode)} holds {held} of the {whole}"
    if "share_of_draws" in result:
        text += f"; {draws_there(float(result['share_of_draws'].values[mode]))}"
    return f"{'The' if mode == 0 else 'A'} {text}."


def worst_mode(result: xr.Dataset) -> int:
    """Return the mode that speaks: one that was missed, else the least likely."""
    p_values, shares = result["mode_p_value"].values, result["share_of_draws"].values
    rejected = p_values <= float(result.attrs["alpha"])
    missed = np.flatnonzero(rejected & (shares == 0))
    if missed.size:
        return int(missed[np.nanargmax(np.nan_to_num(result["share_of_posterior"].values[missed]))])
    # Of two modes the test is the same: the smaller one tells more.
    least = np.flatnonzero(p_values == p_values.min())
    return int(least[-1])


def conclusion_of_modes(result: xr.Dataset) -> str:
    """Say in one sentence what was found about modes and draws."""
    number, status = result.sizes["mode"], result.attrs["status"]
    if status == "cannot tell":
        what = "Cannot tell whether draws visit all modes in the right proportions."
        return f"{what} {result.attrs['reason']}".rstrip()
    if status == "unknown":
        if number > 1:
            return f"{number} modes were found. {about_mode(result, 1)}"
        return "One mode was found." if number else "No mode was found."
    if number == 1:
        return "One mode was found, and no other that the draws could have missed."
    level = f"at level {float(result.attrs['alpha']):g} ({shown_p_value(result)})"
    if status == "passed":
        return (
            f"Not rejected {level}: no sign that the draws visit the {number} modes that were "
            "found in wrong proportions."
        )
    return f"Rejected {level}. {about_mode(result, worst_mode(result))}"
