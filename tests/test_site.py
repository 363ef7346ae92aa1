"""The documentation site: it builds without warnings, notebooks run, and a browser shows it."""

import html
import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import numpydoc.validate
import pymc as pm
import pytest
import xarray as xr

import pymc_ksd

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
#: What numpydoc asks for and this project does otherwise: summaries stand on the first line, and
#: not every object needs an extended summary, references to others, or examples of its own.
NOT_ASKED = {"GL01", "ES01", "SA01", "SA04", "EX01", "YD01"}
#: Short methods say in one line what they take and return.
NOT_ASKED_OF_METHODS = NOT_ASKED | {"PR01", "RT01"}


def number(printed, pattern):
    """Return the number in what was printed."""
    found = re.search(pattern, printed)
    assert found, (pattern, printed)
    return float(found[1])


def check_first_steps(printed):
    assert number(printed, r"normal: p = ([\d.]+)") <= 0.05
    assert number(printed, r"Student-t: p = ([\d.]+)") > 0.05
    assert "the draws are consistent with the posterior" in printed


def check_is_my_sampler_right(printed):
    assert number(printed, r"NUTS: p = ([\d.]+)") > 0.05
    assert number(printed, r"ADVI: p = ([\d.]+)") <= 0.05
    assert number(printed, r"Langevin: p = ([\d.]+)") <= 0.05
    assert number(printed, r"R-hat of Langevin: ([\d.]+)") < 1.02
    good, poor = (number(printed, rf"{name}.*ess_ksd = (\d+)") for name in ("NUTS", "Langevin"))
    assert poor < good / 4


def check_better_means_for_free(printed):
    beetles = [float(one) for one in re.search(r"beetles: gain = \[(.*)\]", printed)[1].split(",")]
    schools = [float(one) for one in re.search(r"schools: gain = \[(.*)\]", printed)[1].split(",")]
    assert min(beetles) > 100
    assert min(schools) > 1.5
    assert "are as precise as those of" in printed


def check_does_my_model_fit(printed):
    assert number(printed, r"line: p = ([\d.]+)") <= 0.05
    assert number(printed, r"step: p = ([\d.]+)") > 0.1
    assert number(printed, r"held out: p = ([\d.]+)") > 0.05


def check_counts(printed):
    assert number(printed, r"Poisson: p = ([\d.]+)") <= 0.05
    assert number(printed, r"Poisson, fitted: p = ([\d.]+)") <= 0.05
    assert number(printed, r"negative binomial, fitted: p = ([\d.]+)") > 0.1
    assert number(printed, r"horse kicks: p = ([\d.]+)") > 0.05


def check_paper_mixture(printed):
    assert number(printed, r"true model: +p = ([\d.]+)") > 0.05
    assert number(printed, r"perturbed model: p = ([\d.]+)") <= 0.05
    assert number(printed, r"KSD-U: wrong in (\d+) of 40") <= 12


def check_paper_boltzmann(printed):
    assert number(printed, r"closed form: ([\d.e-]+)") < 1e-9
    lines = (
        r"σ = +([\d.]+): KSD p = ([\d.]+), MMD with exact draws ([\d.]+), with Gibbs draws ([\d.]+)"
    )
    p_values = {float(row[0]): [float(p) for p in row[1:]] for row in re.findall(lines, printed)}
    stein, exact, gibbs = p_values[0.0]
    assert stein > 0.05
    assert exact > 0.05
    assert gibbs <= 0.05
    assert p_values[0.1][0] <= 0.05


def check_paper_ising(printed):
    assert number(printed, r"σ = 0.4: smoothed p = [\d.]+, spins p = ([\d.]+)") <= 0.05
    assert number(printed, r"\A[^σ]*?p = ([\d.]+)") > 0.05


#: What the notebooks say must be what they print.
CHECKS = {
    name.removeprefix("check_"): function
    for name, function in globals().items()
    if name.startswith("check_")
}


def test_every_notebook_is_checked():
    assert {path.stem for path in NOTEBOOKS} == set(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_clean(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert path.stat().st_size < 50_000


@pytest.mark.parametrize("name", [name for name in pymc_ksd.__all__ if name != "__version__"])
def test_docstrings_follow_numpydoc(name):
    own = getattr(pymc_ksd, name)
    assert found_errors(f"pymc_ksd.{name}", NOT_ASKED) == []
    if isinstance(own, type):
        for key, member in vars(own).items():
            if not key.startswith("_") and (callable(member) or isinstance(member, property)):
                assert found_errors(f"pymc_ksd.{name}.{key}", NOT_ASKED_OF_METHODS) == [], key


def found_errors(name, not_asked):
    errors = numpydoc.validate.validate(name)["errors"]
    return [error for error in errors if error[0] not in not_asked]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Build the site, notebooks included."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-W", "ignore", "-m", "sphinx", "-W", "--keep-going", "-q"]
    done = subprocess.run(
        [*command, str(ROOT / "docs"), str(folder / "html")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("name", CHECKS)
def test_notebook_runs_and_prints_what_it_says(site, name):
    executed = site / "jupyter_execute" / "notebooks" / f"{name}.ipynb"
    outputs = [
        output
        for cell in json.loads(executed.read_text())["cells"]
        for output in cell.get("outputs", [])
    ]
    texts = ["".join(o["text"]) for o in outputs if o["output_type"] == "stream"]
    CHECKS[name]("".join(texts))
    assert any("image/png" in output.get("data", {}) for output in outputs)


@pytest.mark.slow
@pytest.mark.newer_stack
def test_every_public_name_is_in_the_reference(site):
    page = (site / "html" / "api.html").read_text()
    for name in pymc_ksd.__all__:
        if name != "__version__":
            assert f"pymc_ksd.{name}.html" in page, name


# In a browser


def visible(path, width, tmp_path, *, unfolded=False, dark=False):
    """Return what a browser shows of a page: texts, rows and images with their places and sizes."""
    probe = """<script>
    addEventListener("load", () => {
      const seen = (element) => {
        const box = element.getBoundingClientRect(), style = getComputedStyle(element);
        return element.checkVisibility() && box.width > 1 && box.height > 1 &&
          style.visibility === "visible" && style.display !== "none" && style.opacity !== "0";
      };
      const all = (selector) => [...document.querySelectorAll(selector)].filter(seen);
      const place = document.querySelector("main") ?? document.body;
      const found = {
        texts: all("p, h1, h2, li").map((e) => e.innerText),
        summaries: all("summary").map((e) => e.innerText),
        rows: all("tr").map((e) => e.innerText),
        images: all("img").filter((e) => e.complete).map((e) => [e.naturalWidth, e.clientWidth]),
        overflow: document.documentElement.scrollWidth - innerWidth,
        ground: getComputedStyle(place).backgroundColor,
      };
      parent.postMessage(JSON.stringify(found), "*");
    });
    </script></body>"""
    page = path.read_text(encoding="utf-8").replace("</body>", probe)
    if unfolded:
        page = page.replace("<details", "<details open")
    copy = path.with_name(f"probed_{path.name}")
    copy.write_text(page, encoding="utf-8")
    # A window is never as narrow as a phone, but a frame may be.
    frame = path.with_name(f"frame_{path.name}")
    frame.write_text(
        f"""<!DOCTYPE html><body><script>
        addEventListener("message", (event) => {{
          const place = document.createElement("pre");
          place.id = "probe";
          place.textContent = event.data;
          document.body.append(place);
        }});
        </script><iframe src="{copy.name}" width="{width}" height="900"></iframe></body>""",
        encoding="utf-8",
    )
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
    flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
    flags += [f"--user-data-dir={tmp_path / str(time.monotonic_ns())}", "--hide-scrollbars"]
    flags += ["--virtual-time-budget=5000", f"--window-size={width + 50},1000", "--dump-dom"]
    flags += ["--blink-settings=preferredColorScheme=0"] if dark else []
    done = subprocess.run(
        [browser(), *flags, frame.as_uri()], capture_output=True, text=True, check=True, timeout=120
    )
    found = re.search(r'<pre id="probe"[^>]*>(.*?)</pre>', done.stdout, re.DOTALL)
    assert found, done.stdout[-2000:]
    return json.loads(html.unescape(found[1]))


def browser():
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return name
    pytest.fail("the browser tests need Debian's package chromium")


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    rng = np.random.default_rng(0)
    x = rng.normal(size=80)
    y = x**2 + rng.normal(size=80)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0, 10, shape=2)
        pm.Normal("y", beta[0] + beta[1] * x, 1.0, observed=y)
    design = np.stack([np.ones(80), x], axis=1)
    precision = design.T @ design + np.eye(2) / 100
    mean = np.linalg.solve(precision, design.T @ y)
    values = rng.multivariate_normal(mean, np.linalg.inv(precision), size=(4, 250))
    draws = xr.Dataset({"beta": (("chain", "draw", "k"), values)})
    report = pymc_ksd.ksd_report(model, draws, num_draws=60)
    return report, report.save(tmp_path_factory.mktemp("report") / "report.html")


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize("width", [1200, 390])
def test_browser_shows_verdict_and_pictures_first(report, width, tmp_path):
    contents, path = report
    found = visible(path, width, tmp_path)
    assert contents.verdict.headline in found["texts"]
    assert all(detail in found["texts"] for detail in contents.verdict.details)
    assert f"Next step: {contents.verdict.next_step}" in found["texts"]
    assert len(found["images"]) == 2
    assert found["rows"] == []  # folded
    sections = ("Means and standard deviations", "Check of the model against its data")
    assert all(any(one in line for line in found["summaries"]) for one in sections)
    assert found["overflow"] <= 0
    assert path.stat().st_size < 1_000_000


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize(("width", "dark"), [(1200, False), (390, False), (390, True)])
def test_browser_shows_all_of_the_report(report, width, dark, tmp_path):
    _, path = report
    found = visible(path, width, tmp_path, unfolded=True, dark=dark)
    assert found["ground"] == ("rgb(22, 24, 28)" if dark else "rgb(255, 255, 255)")
    assert [row.split()[0] for row in found["rows"][1:3]] == ["beta[0]", "beta[1]"]
    columns = ["mean", "sd", "ess_bulk", "r_hat", "stein_mean", "stein_mcse", "bias_mean"]
    assert found["rows"][0].split()[:9] == [*columns, "bias_sd", "p_value"]
    assert len(found["images"]) == 5
    assert all(natural > 800 and 250 < shown < width for natural, shown in found["images"])
    assert found["overflow"] <= 0


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.parametrize(
    ("name", "text", "images"),
    [("index", "Do the data come from a PyMC model?", 1), ("gallery", "level off", 15)],
)
def test_browser_shows_the_pages(site, name, text, images, tmp_path):
    found = visible(site / "html" / f"{name}.html", 1200, tmp_path)
    assert any(text in one for one in found["texts"])
    assert len([size for size, _ in found["images"] if size > 100]) == images
