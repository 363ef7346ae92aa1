import io

import numpy as np
import pytest
from rich.console import Console

from pymc_ksd import ksd_test
from pymc_ksd.report.demonstration import NEWCOMB, main


def test_demonstration_passes_one_test_and_fails_another(tmp_path):
    text = io.StringIO()
    normal, student = main(tmp_path, console=Console(file=text, width=100))
    assert normal["p_value"] <= 0.05 < student["p_value"]
    assert "rejected" in text.getvalue()
    assert "What to conclude" in text.getvalue()
    assert (tmp_path / "ksd_demo.png").stat().st_size > 5_000


def test_demonstration_knows_a_test_that_cannot_tell(tmp_path, monkeypatch):
    def untold(*args, **options):
        attrs = {"status": "cannot tell", "reason": "There are too few data."}
        return ksd_test(*args, **options).assign(p_value=0.3).assign_attrs(attrs)

    monkeypatch.setattr("pymc_ksd.report.demonstration.ksd_test", untold)
    text = io.StringIO()
    main(tmp_path, console=Console(file=text, width=200))
    assert text.getvalue().count("cannot tell") == 2
    assert "There are too few data." in text.getvalue()
    assert "not rejected" not in text.getvalue()


def test_newcomb_data_are_complete():
    # The published mean of all 66 and of the 64 without the two outliers.
    assert len(NEWCOMB) == 66
    assert NEWCOMB.mean() == pytest.approx(26.21, abs=0.005)
    assert np.sort(NEWCOMB)[2:].mean() == pytest.approx(27.75, abs=0.005)
