"""Where a check has found data and model to disagree, read from its result, and said in words."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import status_of

#: Numbers that differ by less are the same.
_ROUNDING = 1e-9
#: What marked data are.
WORDS = {
    "larger": "larger than expected",
    "smaller": "smaller than expected",
    "wider": "more spread than expected",
    "narrower": "less spread than expected",
    "more": "more than expected",
    "fewer": "fewer than expected",
    "different": "not as expected",
}


def marks(check: xr.Dataset) -> list[tuple[float, float, str]]:
    """Return the marked stretches of a check of one variable: from where, to where, and a word.

    There are none unless it rejects, and some if it does.
    """
    if "marked_from" not in check or status_of(check) != "rejected":
        return []
    start, stop, words = (check[f"marked_{one}"].values for one in ("from", "to", "as"))
    rows = zip(start.tolist(), stop.tolist(), map(str, words), strict=True)
    return [row for row in rows if np.isfinite(row[0])]


def shown_marks(check: xr.Dataset) -> list[tuple[float, float, str]]:
    """Return the marked stretches as far as anything is shown: the last bins of values are open."""
    named = check["picture_name_x"].values
    low, high = np.nanmin([*_ends(check), *named]), np.nanmax([*_ends(check), *named])
    return [(max(start, low), min(stop, high), word) for start, stop, word in marks(check)]


def _ends(check: xr.Dataset) -> tuple[float, float]:
    """Return where a picture begins and ends, if it shows bins of values."""
    at = check["picture_at"].values[np.isfinite(check["picture_at"].values)]
    if str(check["picture_kind"].item()) != "values" or len(at) < 2:
        return -np.inf, np.inf
    half = (at[1] - at[0]) / 2
    return float(at[0] - half), float(at[-1] + half)


def along(check: xr.Dataset) -> str:
    """Say what a picture of a check of one variable goes along."""
    name = str(check["picture_along"].item())
    is_past = str(check["contributions_of"].item()).startswith("past")
    return f"residual, {name}" if is_past else name


def told_marks(check: xr.Dataset) -> list[str]:
    """Say where the data are not what the model expects, a phrase for each kind of misfit."""
    if "picture_kind" not in check:
        return []
    kind, outcome = (str(check[f"picture_{one}"].item()) for one in ("kind", "outcome"))
    labels, at, x = (check[f"picture_{one}"].values for one in ("label", "at", "x"))
    places: dict[str, list[str]] = {}
    for start, stop, word in marks(check):
        inside = [str(one) for one in labels[(at > start) & (at < stop)] if one]
        within = x[(x >= start) & (x <= stop)]
        own = _stretch(within.min(), within.max()) if within.size else _open(check, start, stop)
        places.setdefault(word, []).extend(inside or [own])
    lead, last = f"where {along(check).replace('residual, ', 'the residual ')} is", "or"
    if kind == "elements":
        lead, last = "for", "and"
    told = [(WORDS[word], f"{lead} {_listed(own, last)}") for word, own in places.items()]
    if kind == "values":
        return [
            f"there are {words.replace(' ', ' observations ', 1)} {place}" for words, place in told
        ]
    return [f"{outcome} is {words} {place}" for words, place in told]


def where_marked(check: xr.Dataset) -> str:
    """Say in a sentence where data and model disagree, or nothing where nothing is marked."""
    told = "; ".join(told_marks(check))
    return f"In the data, {told}." if told else ""


def _open(check: xr.Dataset, start: float, stop: float) -> str:
    """Write a stretch of values, of which the first and the last may have no end."""
    low, high = _ends(check)
    least, beyond = low - _ROUNDING * abs(low), high + _ROUNDING * abs(high)
    first, last = _rounded(max(start, low), min(stop, high))
    if start < least:
        return f"{last} and below"
    return f"{first} and above" if stop > beyond else f"{first} to {last}"


def _stretch(start: float, stop: float) -> str:
    """Write two numbers, or one if they are the same."""
    return " to ".join(_rounded(start, stop)) if stop > start else f"{start:.6g}"


def _rounded(start: float, stop: float) -> tuple[str, str]:
    """Write two numbers as precisely as their difference and three digits need: years in full."""
    largest, width = max(abs(start), abs(stop)), stop - start
    places = int(max(2 - np.floor(np.log10(largest)), -np.floor(np.log10(width))))
    digits = max(3, places + 1 + int(np.floor(np.log10(largest))))
    if 1e-3 < largest < 1e9:
        start, stop, digits = round(start, max(places, 0)), round(stop, max(places, 0)), 9
    return f"{start:.{digits}g}", f"{stop:.{digits}g}"


def _listed(names: list[str], last: str) -> str:
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
