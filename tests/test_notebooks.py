"""Notebooks run from beginning to end and are stored without outputs."""

import json
import re
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def check_mixture(printed):
    assert number(printed, r"true model: +p = ([\d.]+)") > 0.05
    assert number(printed, r"perturbed model: p = ([\d.]+)") <= 0.05
    assert number(printed, r"KSD-U: wrong in (\d+) of 40") <= 12


def check_boltzmann(printed):
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


def check_ising(printed):
    assert number(printed, r"σ = 0.4: smoothed p = [\d.]+, spins p = ([\d.]+)") <= 0.05
    assert number(printed, r"\A[^σ]*?p = ([\d.]+)") > 0.05


#: What the notebooks say must be what they print.
CHECKS = {
    "paper_mixture": check_mixture,
    "paper_boltzmann": check_boltzmann,
    "paper_ising": check_ising,
}


def number(printed, pattern):
    """Return the number in what was printed."""
    found = re.search(pattern, printed)
    assert found, (pattern, printed)
    return float(found[1])


def test_there_are_notebooks():
    assert {path.stem for path in NOTEBOOKS} == set(CHECKS)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebook_is_stored_clean(path):
    cells = json.loads(path.read_text())["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)
    assert path.stat().st_size < 50_000


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
# Jupyter's packages announce changes of their own, and leave sockets to the garbage collector.
@pytest.mark.filterwarnings("ignore")
def test_notebook_runs(path):
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=600, kernel_name="python3", resources=resources).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = "".join(output["text"] for output in outputs if output["output_type"] == "stream")
    CHECKS[path.stem](printed)
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert pictures
