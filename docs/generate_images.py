"""Draw the pictures on the pages: ``python docs/generate_images.py``."""

from __future__ import annotations

import logging
import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent), str(DOCS.parent / "tests" / "diagnostics")]

import matplotlib as mpl  # noqa: E402

mpl.use("Agg")

import numpy as np  # noqa: E402
import pymc as pm  # noqa: E402
import xarray as xr  # noqa: E402
from PIL import Image  # noqa: E402
from test_eight_schools import advi, eight_schools, nuts  # noqa: E402

import pymc_ksd  # noqa: E402
from pymc_ksd.report.demonstration import Demonstration  # noqa: E402
from pymc_ksd.report.demonstration import main as demonstrate  # noqa: E402

#: White between pictures, in dots.
_GAP = 24


def main() -> None:
    """Draw everything."""
    images = DOCS / "images"
    with TemporaryDirectory() as folder:
        found = demonstrate(folder)
    draw_first_look(images, found)
    normal = found.normal
    save(pymc_ksd.plot_ksd_test(normal, backend="matplotlib"), images / "ksd_test.png")
    save(pymc_ksd.plot_ksd_members(normal, backend="matplotlib"), images / "ksd_members.png")

    non_centred, centred = eight_schools(centred=False), eight_schools(centred=True)
    exact, approximate = nuts(non_centred), advi(centred)
    for name, model, draws in (("nuts", non_centred, exact), ("advi", centred, approximate)):
        evolution = pymc_ksd.ksd_evolution(model, draws)
        picture = pymc_ksd.plot_ksd_evolution(evolution, backend="matplotlib")
        save(picture, images / f"ksd_evolution_{name}.png")
    test = pymc_ksd.ksd_test(centred, approximate, random_seed=1)
    picture = pymc_ksd.plot_ksd_members(test, backend="matplotlib")
    save(picture, images / "ksd_members_advi.png")
    measures = pymc_ksd.ksd(centred, approximate)
    picture = pymc_ksd.plot_ksd_contributions(measures, backend="matplotlib")
    save(picture, images / "ksd_contributions.png")

    many = pymc_ksd.ksd(*hundred_parameters())
    picture = pymc_ksd.plot_ksd_contributions(many, backend="matplotlib")
    save(picture, images / "ksd_contributions_many.png")

    for name, moments in {
        "ksd_moments": pymc_ksd.ksd_moments(non_centred, advi(non_centred)),
        "ksd_moments_many": pymc_ksd.ksd_moments(*hundred_parameters()),
    }.items():
        picture = pymc_ksd.plot_ksd_moments(moments, backend="matplotlib")
        save(picture, images / f"{name}.png")

    draw_samplers(images)
    draw_fitted_model(images)


def draw_first_look(images: Path, found: Demonstration) -> None:
    """Draw what the demonstration found: a parameter's bias, and where the model fails."""
    pictures = (
        pymc_ksd.plot_ksd_moments(found.advi.moments, backend="matplotlib"),
        pymc_ksd.plot_ksd_ppc(found.nuts.check, backend="matplotlib"),
    )
    drawn = []
    with TemporaryDirectory() as folder:
        for number, picture in enumerate(pictures):
            path = Path(folder) / f"{number}.png"
            save(picture, path)
            with Image.open(path) as image:
                drawn.append(image.convert("RGB"))
    width = max(image.width for image in drawn)
    whole = Image.new("RGB", (width, sum(image.height + _GAP for image in drawn) - _GAP), "white")
    top = 0
    for image in drawn:
        whole.paste(image, ((width - image.width) // 2, top))
        top += image.height + _GAP
    whole.quantize(96).save(images / "first_look.png", optimize=True)


def hundred_parameters() -> tuple[pm.Model, xr.Dataset]:
    """Return a model with a hundred parameters, and draws of which one in ten is off."""
    with pm.Model() as model:
        pm.Normal("theta", shape=100)
    values = np.random.default_rng(1).normal(size=(4, 1_000, 100))
    values[..., ::10] += 0.2
    return model, xr.Dataset({"theta": (("chain", "draw", "element"), values)})


def draw_samplers(images: Path) -> None:
    """Draw the picture of the page on samplers, from the code on it, with two more samplers."""
    text = (DOCS / "samplers.md").read_text()
    found: dict[str, Any] = {}
    exec(text.split("```python\n")[1].split("```")[0], found)
    model, samplers, quiet = found["model"], found["samplers"], {"progressbar": False}
    with model:
        fit = pm.fit(20_000, method="fullrank_advi", random_seed=1, **quiet)
        samplers["full-rank ADVI"] = fit.sample(1_000, random_seed=2)
        samplers["Metropolis"] = pm.sample(
            300, tune=100, chains=4, cores=1, step=pm.Metropolis(), random_seed=2, **quiet
        )
    table = pymc_ksd.ksd_compare(model, samplers, random_seed=1)
    save(pymc_ksd.plot_ksd_compare(table, backend="matplotlib"), images / "ksd_compare.png")


def draw_fitted_model(images: Path) -> None:
    """Draw the pictures of the page on fitted models, from the code on it."""
    text = (DOCS / "fitted_models.md").read_text()
    code = text.split("```python\n")[1].split("```")[0]
    found: dict[str, object] = {}
    exec(code, found)
    check = found["check"]
    save(pymc_ksd.plot_ksd_ppc(check, backend="matplotlib"), images / "ksd_ppc.png")
    save(pymc_ksd.plot_ksd_witness(check, backend="matplotlib"), images / "ksd_witness.png")
    outcomes = pymc_ksd.ksd_ppc(wrong_outcomes(), random_seed=1)
    for name in ("groups", "binary", "values"):
        picture = pymc_ksd.plot_ksd_ppc(outcomes, variable=name, backend="matplotlib")
        save(picture, images / f"ksd_ppc_{name}.png")


def wrong_outcomes() -> pm.Model:
    """Return a model of groups, of zeros and ones and of counts that it does not explain."""
    rng = np.random.default_rng(4)
    schools = ["North", "South", "East", "West", "Centre"]
    school, dose = np.arange(250) % 5, rng.uniform(-2, 2, size=250)
    shift = np.array([0.0, 0.0, 1.5, 0.0, 0.0])[school]
    passed = rng.binomial(1, 1 / (1 + np.exp(1.5 - 1.5 * dose**2)))
    counts = rng.poisson(4, size=250) * rng.binomial(1, 0.8, size=250)
    with pm.Model(coords={"school": schools}) as model:
        effect = pm.Data("effect", np.zeros(5), dims="school")
        pm.Normal("groups", effect[school], 1.0, observed=shift + rng.normal(size=250))
        pm.Bernoulli("binary", logit_p=0.5 * pm.Data("dose", dose), observed=passed)
        pm.Poisson("values", 3.2, observed=counts)
    return model


def save(picture: object, path: Path) -> None:
    """Save a picture without surrounding white."""
    picture.savefig(str(path), dpi=100, bbox_inches="tight")  # type: ignore[attr-defined]


if __name__ == "__main__":
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    main()
