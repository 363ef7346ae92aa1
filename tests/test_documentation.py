"""The Python code on the pages for users runs as printed, page by page in one namespace."""

import re
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def run_page(name, monkeypatch, tmp_path):
    """Run all code of a page and return what it defined."""
    monkeypatch.chdir(tmp_path)
    blocks = [textwrap.dedent(code) for _, code in BLOCK.findall((ROOT / name).read_text())]
    assert blocks, f"{name} has no code"
    namespace = {"__name__": "__main__"}
    for code in blocks:
        exec(compile(code, name, "exec"), namespace)
    return namespace


def test_readme_runs_as_printed(monkeypatch, tmp_path, capsys):
    run_page("README.md", monkeypatch, tmp_path)
    assert capsys.readouterr().out.startswith("0.00099")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::FutureWarning")  # pm.fit calls what PyTensor has deprecated
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # and signatures that will change
def test_sampler_quality_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/sampler_quality.md", monkeypatch, tmp_path)
    assert found["check"]["p_value"] == pytest.approx(1 / 1001)
    assert found["measures"]["ess_ksd"] == pytest.approx(23, abs=2)
    assert found["missed_mode"] == pytest.approx(0.13, abs=0.02)
    assert found["missed_tails"] == pytest.approx(0.55, abs=0.02)
    assert found["missed_shift"][10] <= 0.05
    assert found["missed_shift"][100] == pytest.approx(0.38, abs=0.02)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")  # NUTS, warming up
def test_fitted_models_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/fitted_models.md", monkeypatch, tmp_path)
    assert float(found["check"]["p_value"]) == pytest.approx(1 / 201)
    assert float(found["better"]["p_value"]) > 0.1
    assert float(found["held_out"]["p_value"]) > 0.05


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*takes the draws as independent")  # thinned, as the page says
# JAX has no place for PyTensor's check that shapes fit, which hold here.
@pytest.mark.filterwarnings("ignore:Skipping Assert.*as JAX tracing would remove it")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # sockets of Dask's workers
def test_speed_and_scale_runs_and_finds_what_it_says(monkeypatch, tmp_path):
    found = run_page("docs/speed_and_scale.md", monkeypatch, tmp_path)
    assert float(found["with_jax"]["p_value"]) == float(found["usual"]["p_value"])
    assert float(found["block"]["p_value"]) > 0.01
    assert float(found["on_cluster"]["p_value"]) > 0.01
    assert len(found["p_values"]) == 50


PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    for link in links:
        assert link.startswith("https://") or (page.parent / link).exists(), link
