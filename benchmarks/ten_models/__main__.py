"""What the library says of ten data sets that people know.

``python -m benchmarks.ten_models`` fits the models, checks draws and models, and writes
``docs/ten_models.md`` with its pictures. It needs ``pymc-bart`` for the last of them.
"""

from __future__ import annotations

import argparse
import inspect
import logging
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymc as pm

from benchmarks.measurements import write_page
from benchmarks.rates import header, page
from benchmarks.ten_models import data
from benchmarks.ten_models.stories import STORIES, Story, Version
from pymc_ksd import compile_score, explain, ksd_ppc, ksd_test, plot_ksd_ppc
from pymc_ksd.diagnostics.results import in_words

#: What all draws are made with.
SAMPLING: dict[str, Any] = {
    "draws": 1_000,
    "tune": 1_000,
    "chains": 4,
    "cores": 1,
    "random_seed": 1,
    "target_accept": 0.95,
}
#: How a model is fitted and checked, as the page shows it.
HOW = "\n".join(
    [
        "def answers(model, **options):",
        "    idata = pm.sample(",
        *(f"        {key}={value:_}," for key, value in SAMPLING.items()),
        "        model=model,",
        "    )",
        "    draws = pm.ksd_test(model, idata, random_seed=1)",
        "    fit = pm.ksd_ppc(model, idata, random_seed=1, **options)",
        "    return draws, fit",
    ]
)


def checked(version: Version) -> dict[str, Any]:
    """Fit a model; return results of its draws and of the model, or why it is refused."""
    model = version.build()
    try:
        compile_score(model)
    except ValueError as error:
        return {"error": str(error)}
    draws = pm.sample(model=model, progressbar=False, **SAMPLING)
    options: dict[str, Any] = {"random_seed": 1, "progressbar": False}
    chosen = {} if version.covariates is None else {"covariates": version.covariates}
    return {
        "draws": ksd_test(model, draws, **options),
        "check": ksd_ppc(model, draws, **options, **chosen),
    }


def status(found: dict[str, Any]) -> str:
    """Return "passed", "rejected", "cannot tell" or "refused", what a model's check has said."""
    return "refused" if "error" in found else str(found["check"].attrs["status"])


def rows(story: Story, found: Sequence[dict[str, Any]]) -> list[str]:
    """Return lines of the table of all answers."""
    lines = []
    for version, one in zip(story.versions, found, strict=True):
        right = "yes" if status(one) == version.expected else f"no: {version.expected}"
        if "error" not in one and one["draws"].attrs["status"] != "passed":
            right = "no: good draws" if right == "yes" else f"{right}, good draws"
        link = f"[{story.title}](#{story.title.lower().replace(' ', '-')})"
        draws, model = (_answer(one, name) for name in ("draws", "check"))
        lines.append(f"| {link} | {version.label} | {draws} | {model} | {right} |")
    return lines


def section(story: Story, found: Sequence[dict[str, Any]], images: Path) -> list[str]:
    """Return what there is to tell about a data set, and draw its picture."""
    parts = [f"## {story.title}", story.data]
    for version, one in zip(story.versions, found, strict=True):
        parts.append(f"{version.label[0].upper()}{version.label[1:]}:")
        # Only what everybody has installed runs with the other code of the pages.
        fence = "{code-block} python" if "error" in one else "python"
        parts.append(f"```{fence}\n{source(version)}\n```")
        parts.append(_told(version, one))
        for said in _said(one):
            parts.append(f"```text\n{_wrapped(said)}\n```")
    if story.drawn is not None:
        path = images / f"ten_{story.title.lower().replace(' ', '_').replace('-', '_')}.png"
        plot_ksd_ppc(found[story.drawn]["check"], backend="matplotlib").savefig(path)
        label = story.versions[story.drawn].label
        parts.append(
            f"![{story.title}, {label}: the data and what the model expects](images/{path.name})"
        )
    parts.append(f"**Is that right?** {story.right}")
    return parts


def source(version: Version) -> str:
    """Return the lines of a model, without the function around it and its docstring."""
    lines = inspect.getsource(version.build).splitlines()[2:-1]
    return textwrap.dedent("\n".join(lines))


def _told(version: Version, found: dict[str, Any]) -> str:
    if "error" in found:
        return "It is refused, before anything is sampled:"
    draws, model = (_answer(found, name) for name in ("draws", "check"))
    with_what = "" if version.covariates is None else f', with `covariates="{version.covariates}"`'
    return f"`ksd_test` of the draws: {draws}. `ksd_ppc` of the model{with_what}: {model}."


def _said(found: dict[str, Any]) -> list[str]:
    """Return an error, or the words for all that did not pass."""
    if "error" in found:
        return [found["error"]]
    results = [one for one in found.values() if one.attrs["status"] != "passed"]
    return ["\n".join(_words(one)) for one in results]


def _answer(found: dict[str, Any], name: str) -> str:
    if "error" in found:
        return "refused"
    result = found[name]
    return f"{result.attrs['status']} ({in_words(float(result['p_value']))})"


def _words(result: Any) -> list[str]:
    lines = []
    for finding in explain(result).findings:
        lines += [finding.headline, *(f"- {detail}" for detail in finding.details)]
        lines += [f"Next step: {finding.next_step}"] if finding.next_step else []
    return lines


def _wrapped(text: str) -> str:
    lines = [textwrap.wrap(line, 88, subsequent_indent="  ") for line in text.splitlines()]
    return "\n".join(line for wrapped in lines for line in wrapped)


def imports() -> str:
    """Return the lines with which the code on the page begins."""
    lines = ["import numpy as np", "import pymc as pm", "import pytensor.tensor as pt", ""]
    lines += ["import pymc_ksd", "from benchmarks.ten_models.data import ("]
    return "\n".join([*lines, *(f"    {name}," for name in data.__all__), ")"])


def report(images: Path) -> str:
    """Return the page, and draw its pictures."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    table, sections = header("data", "model", "draws", "check of the model", "right?"), []
    for story in STORIES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of samplers, about the compiler and divergences
            found = [checked(version) for version in story.versions]
        told = rows(story, found)
        print("\n".join(told), flush=True)
        table += told
        sections += section(story, found, images)
    return page(
        [
            "# Ten models that people know",
            "What does the library say about data sets that everybody has seen? Each section fits "
            "one or more models to one of them, tests the draws against the posterior, checks the "
            "model against the data, and says whether the answers are right; where they are "
            "not, the last column says what would be.",
            table,
            "The data are in `benchmarks/ten_models/data.py` of a checkout, all of them real but "
            "the carbon dioxide. The code on this page begins with",
            f"```python\n{imports()}\n```",
            "and every model is fitted and checked by",
            f"```python\n{HOW}\n```",
            "The page and its pictures were made by",
            "```\npython -m benchmarks.ten_models\n```",
            *sections,
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, default=Path("docs/images"))
    write_page(parser, lambda options: report(options.images), "docs/ten_models.md", arguments)


if __name__ == "__main__":
    main()
