import io
from types import SimpleNamespace

import numpy as np
import pytest
import xarray as xr
from rich.console import Console

from pymc_ksd import ksd_test
from pymc_ksd.report import demonstration
from pymc_ksd.report.demonstration import (
    BREAKS,
    NEWCOMB,
    REPORT,
    TENSION,
    Demonstration,
    examine_data,
    main,
)
from pymc_ksd.report.findings import Finding


def test_one_model_of_the_measurements_passes_and_one_is_rejected():
    normal, student = examine_data()
    assert normal["p_value"] <= 0.01
    assert student["p_value"] > 0.05


@pytest.mark.slow
def test_demonstration_answers_the_three_questions_and_writes_a_report(tmp_path):
    text = io.StringIO()
    found = main(tmp_path, console=Console(file=text, width=120))
    shown = text.getvalue()
    assert [found.nuts.test.attrs["status"], found.advi.status] == ["passed", "rejected"]
    assert found.nuts.check["p_value"] <= 0.01
    assert found.nuts.verdict.headline.startswith("Rejected: the model does not fit breaks")
    # Which parameter of ADVI's is off, and by how much, in its own units.
    assert "too narrow (0.0" in found.advi.verdict.details[0]
    for words in ("normal", "Student-t", "NUTS", "ADVI", "negative binomial", "What follows"):
        assert words in shown
    assert shown.count("rejected") == 3
    assert shown.count("passed") == 2
    page = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert found.nuts.verdict.headline in page
    assert len(page) < 1_000_000


def test_demonstration_knows_a_test_that_cannot_tell(monkeypatch):
    def untold(*args, **options):
        attrs = {"status": "cannot tell", "reason": "There are too few data."}
        return ksd_test(*args, **options).assign(p_value=0.3).assign_attrs(attrs)

    monkeypatch.setattr(demonstration, "ksd_test", untold)
    table = demonstration.Table("", "", "", "")
    for result in examine_data():
        finding = demonstration.explain(result).findings[0]
        demonstration._answer(table, "normal", finding, float(result["p_value"]))
    console = Console(file=io.StringIO(), width=200)
    console.print(table)
    assert console.file.getvalue().count("There are too few data.") == 2
    assert "passed" not in console.file.getvalue()


@pytest.mark.parametrize(
    ("p_values", "words"),
    [
        (
            (0.001, 0.5),
            "the normal distribution does not describe the measurements, Student-t describes the "
            "measurements; the draws of NUTS should not be used, the draws of ADVI can be used.",
        ),
        (
            (0.5, 0.001),
            "the normal distribution describes the measurements, Student-t does not describe the "
            "measurements; the draws of NUTS can be used, the draws of ADVI should not be used.",
        ),
    ],
)
def test_what_follows_is_what_was_found(p_values, words):
    results = [xr.Dataset({"p_value": p_value}, attrs={"alpha": 0.05}) for p_value in p_values]
    advice = Finding("rejected", "", (), "Add lags.")
    reports = [SimpleNamespace(test=one, moments=None, verdict=advice) for one in results]
    said = str(demonstration._conclusion(Demonstration(*results, *reports)))
    assert said == f"What follows: {words} For the regression: Add lags."


def test_newcomb_data_are_complete():
    # The published mean of all 66 and of the 64 without the two outliers.
    assert len(NEWCOMB) == 66
    assert NEWCOMB.mean() == pytest.approx(26.21, abs=0.005)
    assert np.sort(NEWCOMB)[2:].mean() == pytest.approx(27.75, abs=0.005)


def test_breaks_of_yarn_are_complete():
    # The published means of 18 looms at low, medium and high tension.
    means = [BREAKS[TENSION == level].mean() for level in (0, 1, 2)]
    assert len(BREAKS) == 54
    assert means == pytest.approx([36.39, 26.39, 21.67], abs=0.005)
