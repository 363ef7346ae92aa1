"""What all plots share: their opening and closing lines, colours, and the argument `visuals`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import xarray as xr

from pymc_ksd.diagnostics.predictive.marks import WORDS, marks, shown_marks
from pymc_ksd.diagnostics.results import by_variable, status_of

if TYPE_CHECKING:
    from arviz_plots import PlotCollection

Backend = Literal["matplotlib", "bokeh", "plotly", "none"]

REJECTED = "#c1272d"
ACCEPTED = "#1b7837"
NEUTRAL = "#444444"
PALE = "#9fb6cd"
STRONG = "#1f4e79"
DASHED = "C1"

#: Colours of what marked data are, of Okabe and Ito's, which colour-blind readers tell apart.
_MARKS = {
    "larger": "#D55E00",
    "smaller": "#0072B2",
    "more": "#D55E00",
    "fewer": "#0072B2",
    "wider": "#CC79A7",
    "narrower": "#009E73",
    "different": "#E69F00",
}
#: How dark they are.
_MARKED = 0.22

#: Where each backend puts a legend: in a line below the picture.
_BELOW: dict[str, dict[str, Any]] = {
    "matplotlib": {"loc": "outside lower center", "ncols": 4, "frameon": False},
    "bokeh": {"side": "below", "orientation": "horizontal"},
    "plotly": {"legend_orientation": "h", "legend_yref": "container", "legend_y": 0}
    | {"update_visuals": False},
}

#: Letters that names of ticks may have together side by side.
_ROOM = 100

_LABELS = {"xlabel": "labelled_x", "ylabel": "labelled_y", "title": "labelled_title"}


@dataclass(frozen=True)
class Picture:
    """One plot that is being drawn.

    Parameters
    ----------
    collection : PlotCollection
        Where it is drawn.
    data : xarray.Dataset
        Its only variable gives the plot its name.
    options : dict
        Options of every visual, None for those that are switched off.
    """

    collection: PlotCollection
    data: xr.Dataset
    options: dict[str, dict[str, Any] | None]

    @classmethod
    def open(
        cls,
        data: xr.Dataset,
        size: tuple[int, int],
        known_visuals: Any,
        visuals: Mapping[Any, Any] | None,
        plot_collection: PlotCollection | None,
        backend: Backend | None,
        pc_kwargs: Mapping[str, Any],
    ) -> Picture:
        """Begin a picture of some size in dots, in a new collection if none is given."""
        from arviz_plots import PlotCollection

        options = _visual_options(visuals, get_args(known_visuals))
        if plot_collection is None:
            figure = {"figsize": size, "figsize_units": "dots"}
            figure |= pc_kwargs.get("figure_kwargs", {})
            chosen = {} if backend is None else {"backend": backend}
            plot_collection = PlotCollection.wrap(
                data, **{**pc_kwargs, **chosen, "figure_kwargs": figure}
            )
        return cls(plot_collection, data, options)

    @property
    def name(self) -> str:
        """What the plotted variable is called."""
        return str(next(iter(self.data)))

    @property
    def axes(self) -> Any:
        """What the backend draws on."""
        return self.collection.get_target(self.name, {})

    def draw(
        self, visual: str, function: str, data: xr.Dataset, *, label: str = "", **style: Any
    ) -> None:
        """Draw a visual by a function of ``arviz_plots.visuals``, unless it is switched off."""
        from arviz_plots import visuals

        chosen = self.options[visual]
        if chosen is not None:
            call = getattr(visuals, function)
            self.collection.map(call, label or visual, data=data, **{**style, **chosen})

    def line(self, visual: str, x: Any, y: Any, *, label: str = "", **style: Any) -> None:
        """Draw a line through points."""
        self.draw(visual, "line_xy", self._points(x, y), label=label, **style)

    def dots(
        self, visual: str, x: Any, y: Any, *, size: float, label: str = "", **style: Any
    ) -> None:
        """Draw points as markers of some area; bokeh takes widths."""
        size = float(np.sqrt(size)) if self.collection.backend == "bokeh" else size
        self.draw(visual, "scatter_xy", self._points(x, y), label=label, size=size, **style)

    def band(self, visual: str, x: Any, low: Any, high: Any, **style: Any) -> None:
        """Fill what lies between two lines."""
        edges = xr.Dataset(
            {self.name: (("kwarg", "place"), np.stack([x, low, high]))},
            coords={"kwarg": ["x", "y_bottom", "y_top"]},
        )
        self.draw(visual, "fill_between_y", edges, **style)

    def draw_marks(self, visual: str, check: xr.Dataset) -> None:
        """Shade the stretches where a predictive check has found data and model to disagree."""
        for index, (start, stop, word) in enumerate(shown_marks(check)):
            ends, colour = xr.Dataset({self.name: ("end", [start, stop])}), _MARKS[word]
            self.draw(visual, "vspan", ends, label=f"{visual}_{index}", color=colour, alpha=_MARKED)

    def mark_entries(self, check: xr.Dataset) -> list[tuple[str, dict[str, Any]]]:
        """Return how a legend explains these stretches."""
        words = dict.fromkeys(word for _, _, word in marks(check))
        return [(WORDS[word], {"color": _paler(_MARKS[word]), "width": 9.0}) for word in words]

    def name_point(self, visual: str, text: str, x: float, y: float, *, label: str) -> None:
        """Write a point's name beside it."""
        place = xr.Dataset({self.name: ("plot_axis", [x, y])}, coords={"plot_axis": ["x", "y"]})
        style = {"color": "black", "horizontal_align": "left", "vertical_align": "bottom"}
        self.draw(visual, "annotate_xy", place, label=label, text=self.plain(text), **style)

    def name_ticks(self, visual: str, places: Any, labels: Sequence[str]) -> None:
        """Write names below the picture, aslant if they are long."""
        if (chosen := self.options[visual]) is None:
            return
        functions = import_module(f"arviz_plots.backend.{self.collection.backend}")
        functions.xticks(list(places), [self.plain(one) for one in labels], self.axes, **chosen)
        if sum(map(len, labels)) + 2 * len(labels) > _ROOM:
            axes = self.axes
            if hasattr(axes, "tick_params"):
                axes.tick_params(axis="x", labelrotation=45)
            elif hasattr(axes, "update_xaxes"):
                axes.update_xaxes(tickangle=-45)
            elif hasattr(axes, "xaxis"):
                axes.xaxis.major_label_orientation = np.pi / 4

    def legend(self, visual: str, entries: Sequence[tuple[str, Mapping[str, Any]]]) -> None:
        """Say what lines of some style, or dots, mean, unless the legend is switched off."""
        chosen = self.options[visual]
        if chosen is not None:
            backend = self.collection.backend
            functions = import_module(f"arviz_plots.backend.{backend}")
            names, styles = zip(*entries, strict=True)
            lines = [{**style} for style in styles]
            dots = [index for index, line in enumerate(lines) if line.pop("marker", "")]
            if backend == "matplotlib":
                for index in dots:
                    lines[index] |= {"marker": "o", "linestyle": "none", "markersize": 5}
            options = {**_BELOW.get(backend, {}), **chosen}
            figure = self.collection.viz["figure"].item()
            legend = functions.legend(self.collection, lines, list(names), **options)
            while backend == "matplotlib" and "ncols" not in chosen and options["ncols"] > 1:
                if legend.get_window_extent().width <= figure.bbox.width:
                    break
                legend.remove()
                options["ncols"] -= 1
                legend = functions.legend(self.collection, lines, list(names), **options)
            for index in dots:
                self._as_dots(legend, figure, index - len(lines), lines[index]["color"])
            if hasattr(figure, "set_layout_engine"):
                # Matplotlib has to make room for it.
                figure.set_layout_engine("constrained")

    def _as_dots(self, legend: Any, figure: Any, index: int, colour: str) -> None:
        """Show dots for an entry of a legend, which arviz-plots makes a line."""
        if self.collection.backend == "bokeh":
            nothing = [float("nan")]
            dot = self.axes.scatter(nothing, nothing, color=colour, size=6)
            legend.items[index].renderers = [dot]
        elif self.collection.backend == "plotly":
            figure.data[index].update(mode="markers", marker={"color": colour})

    def make_logarithmic(self, which: str) -> None:
        """Make the axes "x", "y" or both, "xy", logarithmic on the backend at hand."""
        axes, places = self.axes, {"x": "below", "y": "left"}
        for one in which:
            if hasattr(axes, "set_xscale"):
                getattr(axes, f"set_{one}scale")("log")
            elif hasattr(axes, "update_xaxes"):
                getattr(axes, f"update_{one}axes")(type="log")
            elif hasattr(axes, "x_scale"):
                from bokeh.models import LogAxis, LogScale, LogTicker

                setattr(axes, f"{one}_scale", LogScale())
                setattr(axes, places[one], [LogAxis(ticker=LogTicker())])

    def close(self, **texts: str) -> PlotCollection:
        """Write title and labels of the axes, and return the collection."""
        for visual, text in texts.items():
            self.draw(visual, _LABELS[visual], self.data, text=self.plain(text))
        return self.collection

    def plain(self, text: str) -> str:
        """Return text that the backend shows as it is: matplotlib reads dollars as mathematics."""
        return text.replace("$", r"\$") if self.collection.backend == "matplotlib" else text

    def _points(self, x: Any, y: Any) -> xr.Dataset:
        table = np.stack([np.asarray(x, dtype=float), np.asarray(y, dtype=float)])
        return xr.Dataset(
            {self.name: (("plot_axis", "point"), table)}, coords={"plot_axis": ["x", "y"]}
        )


def as_dataset(result: xr.Dataset | xr.DataTree) -> xr.Dataset:
    """Return a result as a Dataset, also when it comes back as a group of inference data."""
    return result.to_dataset() if isinstance(result, xr.DataTree) else result


def accent(result: xr.Dataset) -> str:
    """Return the colour that tells whether a test passed, was rejected or cannot tell."""
    colours = {"rejected": REJECTED, "cannot tell": STRONG}
    return colours.get(status_of(result), ACCEPTED)


def one_variable(check: xr.Dataset | xr.DataTree, variable: str | None) -> xr.Dataset:
    """Return a predictive check of one observed variable, by default the one that fits worst."""
    check = as_dataset(check)
    if "observed" not in check or "replicated" not in check or "variable" not in check.coords:
        raise ValueError(
            "`check` must be a dataset from ksd_ppc; it has no variables 'observed' and "
            "'replicated'."
        )
    checks = by_variable(check)
    if variable is not None and variable not in checks:
        raise ValueError(f"`variable` must be one of {', '.join(checks)}, got {variable!r}.")
    return checks[variable or min(checks, key=lambda name: float(checks[name]["p_value"]))]


def _paler(colour: str) -> str:
    """Return a colour as it looks where it is shaded."""
    parts = [int(colour[at : at + 2], 16) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(255 - 1.5 * _MARKED * (255 - part)):02x}" for part in parts)


def _visual_options(
    visuals: Mapping[Any, Any] | None, known: tuple[str, ...]
) -> dict[str, dict[str, Any] | None]:
    given = {key: {} if value is True else value for key, value in (visuals or {}).items()}
    unknown = [key for key in given if key not in known]
    if unknown:
        raise ValueError(
            f"`visuals` must have keys among {', '.join(map(repr, known))}, got "
            f"{', '.join(map(repr, unknown))}."
        )
    chosen = {key: given.get(key, {}) for key in known}
    return {key: None if value is False else dict(value) for key, value in chosen.items()}
