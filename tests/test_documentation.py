"""The Python code on the pages for users runs as printed, page by page in one namespace."""

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
import yaml

import pymc_ksd

ROOT = Path(__file__).parents[1]
#: What a conda environment has beside the dependencies.
PYTHON = ("python", "pip")
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def run_page(name, monkeypatch, tmp_path):
    """Run all code of a page in an empty folder and return what it defined."""
    monkeypatch.chdir(tmp_path)
    return run_code(name)


def run_code(name):
    blocks = [textwrap.dedent(code) for _, code in BLOCK.findall((ROOT / name).read_text())]
    assert blocks, f"{name} has no code"
    namespace = {"__name__": "__main__"}
    for code in blocks:
        exec(compile(code, name, "exec"), namespace)
    return namespace


def test_functions_that_pymc_gets_are_listed():
    text = (ROOT / "docs" / "get_started.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"^Importing `pymc_ksd` adds(.*?);", text, re.DOTALL | re.MULTILINE)
    added = {name for name in pymc_ksd.__all__ if re.match("ksd(_|$)", name)}
    assert set(re.findall(r"`pm\.(\w+)`", sentence)) == added


def test_readme_runs_as_printed(monkeypatch, tmp_path, capsys):
    run_page("README.md", monkeypatch, tmp_path)
    assert capsys.readouterr().out.startswith("Rejected at level 0.05 (p = 0.001): the data do not")


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # pm.fit calls what PyTensor has deprecated
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # and signatures that will change
def test_sampler_quality_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/sampler_quality.md", monkeypatch, tmp_path)
    assert found["check"]["p_value"] < 1e-6
    assert found["measures"]["ess_ksd"] == pytest.approx(23, abs=2)
    assert found["missed_mode"] == pytest.approx(0.32, abs=0.02)
    assert found["missed_tails"] == pytest.approx(0.55, abs=0.02)
    assert found["missed_shift"][10] <= 0.05
    assert found["missed_shift"][100] == pytest.approx(0.38, abs=0.02)


@pytest.mark.slow
@pytest.mark.default_stack
def test_moments_page_runs_and_finds_what_it_says(monkeypatch, tmp_path, capsys):
    found = run_page("docs/moments.md", monkeypatch, tmp_path)
    assert found["moments"].attrs["status"] == "passed"
    assert "as precise as those of 1," in capsys.readouterr().out  # more than a million
    assert found["certificate"].attrs["status"] == "certified"
    assert set(found["derived"]["diagnostic"].values) >= {"stein_mean", "bias_sd", "p_mean"}
    assert found["table"]["p_value"].min() > 0.05


@pytest.mark.slow
@pytest.mark.default_stack
def test_modes_page_runs_and_finds_what_it_says(monkeypatch, tmp_path, capsys):
    found = run_page("docs/modes.md", monkeypatch, tmp_path)
    assert "first mode near mu = 4.2 holds about 58 % of the posterior" in capsys.readouterr().out
    assert found["modes"].attrs["status"] == "rejected"
    shares = found["without_draws"]["share_of_posterior"].values
    assert shares.tolist() == pytest.approx([0.584, 0.416], abs=0.01)  # the prior's ratio


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore::FutureWarning")  # pm.fit calls what PyTensor has deprecated
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # and signatures that will change
def test_samplers_page_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/samplers.md", monkeypatch, tmp_path)
    assert list(found["table"].index) == ["NUTS", "short NUTS", "ADVI"]
    assert found["table"]["status"].tolist() == ["passed", "passed", "rejected"]
    assert found["result"].having("rejected") == ["correlated"]
    assert found["result"].missed == []


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # NUTS, warming up
def test_fitted_models_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/fitted_models.md", monkeypatch, tmp_path)
    assert float(found["check"]["p_value"]) == pytest.approx(1 / 201)
    assert float(found["better"]["p_value"]) > 0.1
    assert float(found["held_out"]["p_value"]) > 0.05


def test_models_on_the_page_of_ten_can_be_built(monkeypatch, tmp_path):
    """Fitting them takes minutes: that is left to the command that writes the page."""
    found = run_page("docs/ten_models.md", monkeypatch, tmp_path)
    assert found["model"].observed_RVs[0].name == "disasters"
    assert callable(found["answers"])


@pytest.mark.slow
@pytest.mark.default_stack
def test_speed_and_scale_runs_and_finds_what_it_says(tmp_path):
    """In a process of its own: JAX and clusters leave threads and sockets behind."""
    code = (
        "import json, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
        "from test_documentation import run_code\n"
        "found = run_code('docs/speed_and_scale.md')\n"
        "p_values = [float(found[key]['p_value']) for key in sys.argv[1:]]\n"
        "print(json.dumps([*p_values, len(found['p_values'])]))\n"
    )
    names = ["with_jax", "usual", "block", "on_cluster"]
    command = [sys.executable, "-W", "ignore", "-c", code, *names]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with_jax, usual, block, on_cluster, n = json.loads(done.stdout.splitlines()[-1])
    assert with_jax == usual
    assert block > 0.01
    assert on_cluster > 0.01
    assert n == 50


def test_front_page_runs_as_printed(monkeypatch, tmp_path):
    found = run_page("docs/index.md", monkeypatch, tmp_path)
    assert float(found["result"]["p_value"]) <= 0.05


def test_choosing_runs_as_printed(monkeypatch, tmp_path):
    found = run_page("docs/choosing.md", monkeypatch, tmp_path)
    assert len(found["p_values"]) == 3
    assert min(found["p_values"].values()) <= 0.05


@pytest.mark.slow
def test_get_started_runs_and_finds_what_it_says(monkeypatch, tmp_path, capsys):
    found = run_page("docs/get_started.md", monkeypatch, tmp_path)
    assert float(found["result"]["p_value"]) <= 0.05
    assert float(found["check"]["p_value"]) > 0.05
    assert float(found["fit"]["p_value"]) > 0.05
    assert "the draws are consistent with the posterior" in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size > 100_000


@pytest.mark.slow
@pytest.mark.default_stack
def test_command_line_page_runs_as_printed(monkeypatch, tmp_path):
    """The file it writes, and the two commands below it, with this environment's programs."""
    run_page("docs/command_line.md", monkeypatch, tmp_path)
    text = (ROOT / "docs/command_line.md").read_text()
    (commands,) = re.findall(r"```bash\n(python coins.py\n.*?)```", text, re.DOTALL)
    folder = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-ec", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Report: coins.html" in done.stdout
    assert (tmp_path / "coins.html").stat().st_size > 100_000


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    for link in links:
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_the_citation_has_the_version_and_the_license_of_the_package():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert citation["version"] == pymc_ksd.__version__
    assert citation["license"] == project["license"]
    assert [one["name"] for one in citation["authors"]] == [
        one["name"] for one in project["authors"]
    ]


def test_the_conda_environment_has_the_bounds_of_the_package():
    environment = yaml.safe_load((ROOT / "docs" / "environment.yml").read_text())
    listed = [one for one in environment["dependencies"] if isinstance(one, str)]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [one.split(";")[0] for one in project["dependencies"] if "< '3.12'" not in one]
    assert sorted(needed) == sorted(one for one in listed if one.split("=")[0] not in PYTHON)
    site = yaml.safe_load((ROOT / ".readthedocs.yaml").read_text())
    assert (ROOT / site["sphinx"]["configuration"]).exists()
    (install,) = site["python"]["install"]
    assert set(install["extra_requirements"]) <= set(project["optional-dependencies"])


def test_targets_and_controls_of_the_battery_are_those_on_the_page():
    from pymc_ksd.samplers.controls import CONTROLS
    from pymc_ksd.samplers.targets import TARGETS

    page = (ROOT / "docs" / "samplers.md").read_text()
    for target in TARGETS:
        assert f"| `{target.name}` |" in page
        assert f'"{target.name}"' in " ".join(pymc_ksd.battery.__doc__.split())
    for control in CONTROLS:
        assert f"| {control.name} | {control.error} |" in page


@pytest.mark.slow
@pytest.mark.newer_stack
def test_sources_of_scores_run_and_find_what_they_say(monkeypatch, tmp_path):
    found = run_page("docs/sources_of_scores.md", monkeypatch, tmp_path)
    for name in ("result", "numpyro_result", "alone"):
        assert found[name].attrs["scores"] == "stored"
        assert found[name].attrs["status"] == "passed"
    assert float(found["alone"]["ksd"]) == pytest.approx(float(found["result"]["ksd"]))
    assert found["score"].labels == ["log_tau", "mu[0]", "mu[1]"]
