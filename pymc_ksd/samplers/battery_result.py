"""What a battery found: a row for each target and for each control, and what they come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from pymc_ksd.diagnostics.results import in_short, in_words

#: Columns that are shown as text.
_SHOWN = ("status", "p_value", "bias_mean", "bias_sd", "ess_ksd", "n", "reason")


@dataclass(frozen=True)
class BatteryResult:
    """What :func:`battery` found; it shows itself where it is printed.

    Parameters
    ----------
    table : pandas.DataFrame
        A row for each target, with its ``trouble`` and the columns of :func:`ksd_compare` but the
        rank; ``sampling_time`` is what the call of the sampler took.
    controls : pandas.DataFrame
        A row for each wrong sampler, with its ``target``, whether it was ``caught`` (rejected, or
        not told to be right), ``status``, ``p_value`` and its ``error``. Empty if none was tried.
    alpha : float
        Level of all targets together.
    settings : mapping
        Level of one target, seed and versions.
    """

    table: pd.DataFrame
    controls: pd.DataFrame
    alpha: float
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def status(self) -> str:
        """The answer for all targets: "passed", "rejected" or "cannot tell"."""
        statuses = set(self.table["status"])
        if "rejected" in statuses:
            return "rejected"
        return "passed" if statuses == {"passed"} and not self.missed else "cannot tell"

    @property
    def passed(self) -> bool:
        """Whether the sampler passed on every target, and every control was caught."""
        return self.status == "passed"

    @property
    def missed(self) -> list[str]:
        """Controls that passed, though they are wrong."""
        return [str(name) for name in self.controls.index[~self.controls["caught"].astype(bool)]]

    def having(self, status: str) -> list[str]:
        """Return the targets with a status.

        Parameters
        ----------
        status : {"passed", "rejected", "cannot tell", "not tested"}
            The status.

        Returns
        -------
        list of str
            Their names.
        """
        return [str(name) for name in self.table.index[self.table["status"] == status]]

    @property
    def reasons(self) -> list[str]:
        """Why the sampler did not pass, a sentence for each target or control; the worst first."""
        said = []
        for status in ("rejected", "cannot tell", "not tested"):
            for name in self.having(status):
                said.append(f"{name}: {status} ({self._why(self.table.loc[name])}).")
        said += [f"The control {name!r} is wrong and was not caught." for name in self.missed]
        return said

    def _why(self, row: Any) -> str:
        """Say what speaks against the draws of one target."""
        reason = str(row["reason"]).rstrip(".")
        if row["status"] != "rejected":
            return reason
        parts = [in_words(float(row["p_value"]))]
        if row["ess_ksd"] < row["n"]:
            parts.append(f"worth {row['ess_ksd']:,.0f} of {row['n']:,} draws")
        for what, name, unit in (("mean", "mean", "sd"), ("sd", "standard deviation", "of it")):
            size, whose = abs(float(row[f"bias_{what}"])), row[f"bias_{what}_of"]
            if np.isfinite(size):
                parts.append(f"largest error of a {name} {size:.2g} {unit}, {whose}")
            elif np.isinf(size):
                parts.append(f"{name} of {whose} too far off to be measured")
        return "; ".join(parts + ([reason] if reason else []))

    @property
    def headline(self) -> str:
        """The whole in one sentence."""
        n, level = len(self.table), f"at level {self.alpha:g}"
        targets = f"all {n} targets" if n > 1 else f"the target {self.table.index[0]!r}"
        level += " for all of them together" if n > 1 else ""
        caught = (
            f", and all {len(self.controls)} controls were caught" if len(self.controls) else ""
        )
        if self.passed:
            return f"The sampler passed on {targets}, {level}{caught}."
        wrong = self.having("rejected")
        if wrong:
            where = f"{len(wrong)} of {n} targets" if n > 1 else targets
            return f"The sampler is wrong on {where}, {level}."
        return f"Cannot tell whether the sampler is right on {targets}."

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values, as JSON holds them; numbers that are missing as None.

        Returns
        -------
        dict
            Status, reason, headline, level, settings, and a record for each target and control.
        """
        return {
            "status": self.status,
            "reason": " ".join(self.reasons) if self.status == "cannot tell" else "",
            "headline": self.headline,
            "alpha": self.alpha,
            "targets": as_records(self.table),
            "controls": as_records(self.controls),
            "settings": {key: _plain(value) for key, value in self.settings.items()},
        }

    def __str__(self) -> str:
        """Return the whole as text."""
        shown = self.table[list(_SHOWN)].copy()
        shown["reason"] = [_short(str(reason)) for reason in shown["reason"]]
        shown["p_value"] = [in_short(value) for value in shown["p_value"]]
        shown = shown.rename(columns={"reason": ""})
        parts = [self.headline, *(f"  - {one}" for one in self.reasons)]
        parts += [shown.to_string(float_format=lambda x: f"{x:.3g}", na_rep="")]
        if len(self.controls):
            controls = self.controls.copy()
            controls["p_value"] = [in_short(value) for value in controls["p_value"]]
            parts += ["Samplers that are wrong:", controls.to_string()]
        return "\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Return the whole for a notebook."""
        from html import escape

        said = "".join(f"<li>{escape(one)}</li>" for one in self.reasons)
        tables = [self.table.to_html(float_format="{:.3g}".format)]
        if len(self.controls):
            tables += ["<p>Samplers that are wrong:</p>", self.controls.to_html()]
        return f"<p><b>{escape(self.headline)}</b></p><ul>{said}</ul>{''.join(tables)}"


def as_records(table: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """Return the rows of a table by their labels, as JSON holds them."""
    rows = table.to_dict("index")
    return {str(k): {str(name): _plain(v) for name, v in row.items()} for k, row in rows.items()}


def _plain(value: Any) -> Any:
    """Return a value as JSON holds it: no NaN, and what is infinite as text."""
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if isinstance(value, float) and not np.isfinite(value):
        return None if np.isnan(value) else "infinite"
    return value


def _short(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:59]}…"
