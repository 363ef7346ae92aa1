import io
import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from pymc_ksd.demonstration import NEWCOMB, main

ROOT = Path(__file__).parent.parent


def test_demonstration_passes_one_test_and_fails_another(tmp_path):
    text = io.StringIO()
    normal, student = main(tmp_path, console=Console(file=text, width=100))
    assert normal["p_value"] <= 0.05 < student["p_value"]
    assert "rejected" in text.getvalue()
    assert "What to conclude" in text.getvalue()
    assert (tmp_path / "ksd_demo.png").stat().st_size > 5_000


def test_newcomb_data_are_complete():
    # The published mean of all 66 and of the 64 without the two outliers.
    assert len(NEWCOMB) == 66
    assert NEWCOMB.mean() == pytest.approx(26.21, abs=0.005)
    assert np.sort(NEWCOMB)[2:].mean() == pytest.approx(27.75, abs=0.005)


def test_readme_snippets_run(capsys):
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    assert blocks
    for block in blocks:
        exec(compile(block, "README.md", "exec"), {})
    assert float(capsys.readouterr().out) <= 0.05


def test_docs_example_of_missed_modes_runs(capsys):
    text = (ROOT / "docs" / "sampler_quality.md").read_text()
    (block,) = re.findall(r"  ```python\n(  import numpy.*?)  ```", text, flags=re.DOTALL)
    exec(compile(textwrap.dedent(block), "sampler_quality.md", "exec"), {})
    assert float(capsys.readouterr().out) > 0.05
