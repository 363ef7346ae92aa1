"""Where a check has found data and model to disagree, read from its result, and said in words."""

from __future__ import annotations

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.results import status_of

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
        ends = (within.min(), within.max()) if within.size else (start, stop)
        places.setdefault(word, []).extend(inside or [_stretch(*ends)])
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


def _stretch(start: float, stop: float) -> str:
    """Write two numbers as precisely as their difference and three digits need: years in full."""
    largest, width = max(abs(start), abs(stop)), stop - start
    if not width:
        return f"{start:.6g}"
    places = int(max(2 - np.floor(np.log10(largest)), -np.floor(np.log10(width))))
    digits = max(3, places + 1 + int(np.floor(np.log10(largest))))
    if 1e-3 < largest < 1e9:
        start, stop, digits = round(start, max(places, 0)), round(stop, max(places, 0)), 9
    return f"{start:.{digits}g} to {stop:.{digits}g}"


def _listed(names: list[str], last: str) -> str:
    return f" {last} ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
