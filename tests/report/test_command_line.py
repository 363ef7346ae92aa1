"""The command line as a pipeline sees it: a process, its exit code and what it prints."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

from pymc_ksd import BatteryResult, ksd_ppc
from pymc_ksd.diagnostics.judged import Judged
from pymc_ksd.diagnostics.measured import diagnose_draws
from pymc_ksd.report.command_line import main
from pymc_ksd.report.machine_readable import of_battery

MODEL = """
from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pymc as pm
from scipy.stats import norm

print("a file may print")
with pm.Model() as model:
    mu = pm.Normal("mu", 0, 10)
    pm.Normal("y", mu, 1.0, observed=norm.ppf(np.arange(0.5, 50) / 50))


def build():
    with pm.Model() as other:
        pm.Normal("mu", 0, 10)
    return other


def computed():
    with pm.Model() as other:
        mu = pm.Normal("mu", 0, 10)
        pm.Deterministic("twice", 2 * mu)
        pm.Normal("y", mu, 1.0, observed=norm.ppf(np.arange(0.5, 50) / 50))
    return other


def leave():
    raise SystemExit


def lazy():
    from helper import scale

    with pm.Model() as other:
        pm.Normal("mu", 0, 10 * scale)
    return other


@dataclass
class Settings:
    number: int


number = 3
if __name__ == "__main__":
    raise RuntimeError("not run as a script")
"""


SAMPLERS = """
import numpy as np
import xarray as xr

number = 3


def exact(model, random_seed):
    values = np.random.default_rng(random_seed).normal(1.0, 2.0, size=(4, 250, 5))
    return xr.Dataset({"x": (("chain", "draw", "x_dim_0"), values)})


def narrow(model, random_seed):
    return 1.0 + 0.8 * (exact(model, random_seed) - 1.0)


def broken(model, random_seed):
    raise RuntimeError("no draws today")


def leaves(model, random_seed):
    raise SystemExit(0)
"""
MEND = "mend_sampler"


def draws(path, shift=0.0, name="mu", gap=False, sd=50.01**-0.5):
    values = np.random.default_rng(0).normal(shift, sd, size=(4, 250))
    if gap:
        values[1, 7] = np.nan
    save(path, values, name)


def save(path, values, name="mu", **others):
    arrays = {name: values, **others}
    posterior = xr.Dataset({name: (("chain", "draw"), array) for name, array in arrays.items()})
    xr.DataTree.from_dict({"posterior": posterior}).to_netcdf(path, engine="h5netcdf")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "model.py").write_text(MODEL)
    (folder / "broken.py").write_text("import pymc as pm\ndef broken(:\n")
    (folder / "two.py").write_text(MODEL + "\nsecond = build()\n")
    (folder / "helper.py").write_text("scale = 1.0\n")
    (folder / "beside.py").write_text("import helper\nfrom model import model\n")
    draws(folder / "good.nc")
    draws(folder / "wrong.nc", shift=0.5)
    draws(folder / "off.nc", shift=0.07)  # half a standard deviation
    draws(folder / "gaps.nc", gap=True)
    draws(folder / "other.nc", name="nu")
    draws(folder / "prior.nc", sd=10.0)
    # Of the right distribution as a whole, in an order that no sampler of it has.
    ordered = norm.ppf((np.arange(1000) + 0.5) / 1000, scale=50.01**-0.5)
    save(folder / "apart.nc", ordered.reshape(4, 250))
    save(folder / "frozen.nc", np.repeat(ordered[[100, 400, 600, 900]], 250).reshape(4, 250))
    there_and_back = np.concatenate([ordered[8::16], ordered[8::16][::-1]])
    save(folder / "slow.nc", np.resize(there_and_back, (4, 250)))
    values = np.random.default_rng(0).normal(0, 50.01**-0.5, size=(4, 250))
    save(folder / "of_other.nc", values, twice=values)
    posterior = xr.Dataset({"mu": (("chain", "draw"), values)})
    data = {"own": norm.ppf(np.arange(0.5, 50) / 50), "other": np.linspace(-1, 1, 50)}
    for name, observed in data.items():
        groups = {"posterior": posterior, "observed_data": xr.Dataset({"y": ("i", observed)})}
        xr.DataTree.from_dict(groups).to_netcdf(folder / f"{name}_data.nc", engine="h5netcdf")
    (folder / "samplers.py").write_text(SAMPLERS)
    (folder / "broken.nc").write_bytes(b"no file of numbers")
    empty = xr.DataTree.from_dict({"prior": xr.Dataset({"mu": ("draw", np.zeros(3))})})
    empty.to_netcdf(folder / "empty.nc", engine="h5netcdf")
    return folder


SCHEMA = json.loads(
    (Path(__file__).parents[2] / "docs" / "schema" / "pymc-ksd-1.json").read_text(encoding="utf-8")
)


def valid(text):
    """Return what JSON says, after checking it against the schema of the documentation."""
    found = json.loads(text)
    jsonschema.Draft202012Validator(SCHEMA).validate(found)
    documented = set(SCHEMA["properties"])
    if "error" not in found:
        documented |= set(SCHEMA["$defs"][found["kind"]]["properties"])
    assert set(found) <= documented, set(found) - documented
    return found


def run(folder, *arguments, **variables):
    """Run the command in a process of its own."""
    command = [sys.executable, "-c", "import sys; from pymc_ksd.report.command_line import main; "]
    command[-1] += "sys.exit(main())"
    return subprocess.run(
        [*command, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_draws_that_pass(folder):
    done = run(folder, "check", "model.py", "good.nc", "--ppc", "--report", "out.html")
    assert done.returncode == 0, done.stderr
    assert "the draws are consistent with the posterior" in " ".join(done.stdout.split())
    assert "Report: out.html" in done.stdout
    assert "a file may print" not in done.stdout
    assert (folder / "out.html").read_text().count("<img") == 5


def test_draws_that_are_rejected_as_json(folder):
    done = run(folder, "check", "model.py:model", "wrong.nc", "--json")
    assert done.returncode == 1, done.stderr
    found = valid(done.stdout)
    assert found["rejected"] is True
    assert found["status"] == "rejected"
    assert found["sampler"]["p_value"] < 0.05
    assert found["sampler"]["n"] == 1000
    assert found["predictive"] is None
    assert "mu" in found["summary"]
    assert found["moments"]["status"] == "rejected"
    assert found["moments"]["p_value"] < 0.025
    assert found["summary"]["mu"]["p_value"] < 0.025


@pytest.mark.slow
@pytest.mark.default_stack
def test_what_cannot_run_exits_with_two_and_says_why(folder):
    done = run(folder, "check", "broken.py", "good.nc", "--json")
    assert done.returncode == 2
    found = valid(done.stdout)
    assert "broken.py failed with SyntaxError" in found["error"]
    assert (found["status"], found["reason"]) == ("cannot tell", found["error"])
    assert "could not run" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("option", [[], ["--json"]])
def test_a_reader_that_has_gone_does_not_change_the_exit_code(folder, option):
    code = "import sys; from pymc_ksd.report.command_line import main; sys.exit(main())"
    command = [sys.executable, "-c", code, "check", "model.py", "good.nc", *option]
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        errors = process.stderr.read()
        assert process.wait() == 0
    assert "Traceback" not in errors


@pytest.mark.slow
def test_letters_that_the_terminal_lacks_do_not_change_the_exit_code(folder):
    done = run(folder, "check", "model.py", "good.nc", PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0, done.stderr
    assert "the draws are consistent with the posterior" in " ".join(done.stdout.split())


@pytest.mark.slow
@pytest.mark.newer_stack
def test_help_has_examples_and_exit_codes():
    done = run(None, "check", "--help")
    assert done.returncode == 0
    assert "pymc-ksd check model.py posterior.nc" in done.stdout
    assert "exit codes" in done.stdout


def test_the_command_is_installed():
    from importlib.metadata import entry_points

    (script,) = entry_points(group="console_scripts", name="pymc-ksd")
    assert script.load() is main


# Everything else in this process, which is faster.


@pytest.fixture
def at(folder, monkeypatch):
    monkeypatch.chdir(folder)
    # Modules that model files import must not be found by the next test.
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name in ("helper", "model", "samplers"):
            del sys.modules[name]


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["missing.py", "good.nc"], "there is no file missing.py"),
        (["model.py", "missing.nc"], "there is no file missing.nc"),
        (["model.py:nothing", "good.nc"], "model.py has no 'nothing'; models in it: model"),
        (["model.py:number", "good.nc"], "must be a pm.Model or a function that returns one"),
        (["two.py", "good.nc"], "must have one pm.Model, found: model, second"),
        (["helper.py", "good.nc"], "must have one pm.Model, found: none"),
        (["model.py", "broken.nc"], "broken.nc cannot be read as netCDF or zarr"),
        (["model.py", "empty.nc"], "empty.nc has no group 'posterior'; its groups: prior"),
        (["model.py", "other.nc"], "mu"),
        (["model.py", "good.nc", "--report", "nowhere/out.html"], "--report cannot be written"),
        (["model.py", "good.nc", "--report", "."], "--report cannot be written"),
        (
            ["model.py", "good.nc", "--compare", "a=off.nc", "--compare", "a=prior.nc"],
            "--compare needs a different name for every file, got a, a",
        ),
        (["model.py:leave", "good.nc"], "model.py failed with SystemExit"),
        (["model.py", "gaps.nc", "--ppc"], "The draws were not tested"),
        (["model.py:build", "prior.nc", "--ppc"], "it has no observed data"),
    ],
)
def test_reasons(arguments, reason, capsys):
    assert main(["check", *arguments]) == 2
    assert reason in capsys.readouterr().err


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("model", "file", "code", "reason", "kind", "action"),
    [
        ("model.py", "apart.nc", 2, "The chains disagree", "chains_disagree", "run_longer_chains"),
        ("model.py", "slow.nc", 2, "The chains are short", "chains_short", "run_longer_chains"),
        ("model.py", "frozen.nc", 2, "The chains do not move", "chains_stand_still", MEND),
        (
            "model.py:computed",
            "of_other.nc",
            2,
            "'twice' in `data` is not what `model` computes",
            "mismatch",
            "match_draws_and_model",
        ),
        (
            "model.py",
            "other_data.nc",
            2,
            "The observed data of 'y' that are stored with the draws are not those of `model`",
            "mismatch",
            "match_draws_and_model",
        ),
        ("model.py", "prior.nc", 1, "", "", MEND),
    ],
)
def test_draws_that_are_no_sample_never_exit_with_zero(
    model, file, code, reason, kind, action, capsys
):
    assert main(["check", model, file, "--json"]) == code
    printed = capsys.readouterr()
    found = valid(printed.out)
    assert found["status"] == {1: "rejected", 2: "cannot tell"}[code]
    assert found["reason"].startswith(reason)
    assert found["exit_code"] == code
    assert [one["code"] for one in found["reasons"]] == ([kind] if kind else [])
    assert {one["action"] for one in found["next_steps"]} == {action}
    cause = "mismatch" if kind == "mismatch" else "sampler" if code == 1 else None
    assert found["cause"] == cause
    assert ("pymc-ksd: cannot tell: " in printed.err) == (code == 2)
    assert "draws are consistent" not in printed.out


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("file", "code"), [("wrong.nc", 1), ("good.nc", 2)])
def test_a_test_that_cannot_tell_exits_with_two_unless_it_rejects(file, code, capsys, monkeypatch):
    def untold(*args, **options):
        found = diagnose_draws(*args, **options)
        status = "cannot tell" if code == 2 else "rejected"
        reason = "The chains are too short." if code == 2 else ""
        attrs = {"status": status, "reason": reason, "reason_code": "chains_short"}
        return replace(found, test=found.test.assign_attrs(attrs))

    monkeypatch.setattr("pymc_ksd.report.run_checks.diagnose_draws", untold)
    assert main(["check", "model.py", file, "--json"]) == code
    printed = capsys.readouterr()
    found = valid(printed.out)
    assert ("pymc-ksd: cannot tell: The chains are too short." in printed.err) == (code == 2)
    assert found["status"] == ("cannot tell" if code == 2 else "rejected")
    assert found["reason"] == ("The chains are too short." if code == 2 else "")
    assert main(["check", "model.py", file]) == code
    assert ("Cannot tell whether the draws come" in capsys.readouterr().out) == (code == 2)


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("file", "code"), [("wrong.nc", 1), ("good.nc", 2)])
def test_a_page_that_cannot_be_drawn_loses_nothing(file, code, capsys, monkeypatch):
    def broken(self, path):
        raise RuntimeError("no picture")

    monkeypatch.setattr("pymc_ksd.report.report.Report.save", broken)
    assert main(["check", "model.py", file, "--report", "out.html"]) == code
    printed = capsys.readouterr()
    problem = "out.html was not written: RuntimeError: no picture"
    assert problem in printed.err
    assert "posterior" in printed.out
    assert "Report: out.html" not in printed.out
    # What makes the exit code 2 is the reason, and what to do is about that.
    assert main(["check", "model.py", file, "--report", "out.html", "--json"]) == code
    found = valid(capsys.readouterr().out)
    assert found["status"] == ("passed" if code == 2 else "rejected")
    assert found["reason"] == (problem if code == 2 else "")
    (step,) = found["next_steps"]
    assert step["action"] == ("mend_input" if code == 2 else MEND)
    assert (problem in step["text"]) == (code == 2)


@pytest.mark.usefixtures("at")
def test_code_that_leaves_during_a_check_does_not_pass(capsys, monkeypatch):
    def leaves(*args, **options):
        raise SystemExit(0)

    monkeypatch.setattr("pymc_ksd.report.command_line.ksd_report", leaves)
    assert main(["check", "model.py", "good.nc", "--json"]) == 2
    assert valid(capsys.readouterr().out)["reason"] == "SystemExit: 0"


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("alpha", ["0", "1.5", "much", "0.0005"])
def test_levels_are_checked(alpha, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", "model.py", "good.nc", "--alpha", alpha])
    assert stop.value.code == 2
    required = f"must be a number of at least 0.001 and less than 1, got {alpha!r}"
    assert f"argument --alpha: {required}" in capsys.readouterr().err


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    "command", [["check", "model.py", "good.nc"], ["battery", "samplers:exact"]]
)
@pytest.mark.parametrize("seed", ["-1", "1.5", "one"])
def test_seeds_are_checked(command, seed, capsys):
    with pytest.raises(SystemExit) as stop:
        main([*command, f"--seed={seed}"])
    assert stop.value.code == 2
    required = f"must be a whole number of at least 0, got {seed!r}"
    assert f"argument --seed: {required}" in capsys.readouterr().err


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("file", "margin", "code", "status"),
    [
        ("good.nc", "0.2", 0, "certified"),
        ("off.nc", "0.2", 1, "rejected"),
        ("good.nc", "0.01", 2, "cannot tell"),
        ("frozen.nc", "0.2", 2, "cannot tell"),
    ],
)
def test_margins(file, margin, code, status, capsys):
    assert main(["check", "model.py", file, "--margin", margin, "--json"]) == code
    printed = capsys.readouterr()
    found = valid(printed.out)
    assert found["moments"]["status"] == status
    assert found["moments"]["margin"] == float(margin)
    assert found["status"] == ("passed" if status == "certified" else status)
    assert ("pymc-ksd: cannot tell: " in printed.err) == (code == 2)
    assert found["moments"]["parameters"]["mu"]["sd"] > 0


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("margin", ["0", "-0.1", "inf", "nan", "much"])
def test_margins_are_checked(margin, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", "model.py", "good.nc", "--margin", margin])
    assert stop.value.code == 2
    required = f"must be a positive, finite number, got {margin!r}"
    assert f"argument --margin: {required}" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.usefixtures("at")
def test_functions_files_beside_and_levels(capsys):
    assert main(["check", "model.py:build", "wrong.nc"]) == 1  # its prior is much wider
    assert main(["check", "beside.py", "good.nc"]) == 0
    capsys.readouterr()
    assert main(["check", "model.py:lazy", "wrong.nc", "--alpha", "0.001", "--json"]) == 1
    assert valid(capsys.readouterr().out)["settings"]["alpha"] == 0.001


@pytest.mark.usefixtures("at")
@pytest.mark.filterwarnings("ignore:Consolidated metadata")  # zarr, of its own format
def test_zarr_folders_are_read(folder):
    tree = xr.open_datatree(folder / "good.nc", engine="h5netcdf")
    tree.to_zarr(folder / "good.zarr")
    tree.close()
    assert main(["check", "model.py", "good.zarr"]) == 0


@pytest.mark.usefixtures("at")
def test_a_table_that_cannot_be_made_is_told_and_changes_no_exit_code(capsys, monkeypatch):
    def broken(*args, **options):
        raise TypeError("no table today")

    monkeypatch.setattr("pymc_ksd.report.run_checks.with_moments", broken)
    assert main(["check", "model.py", "good.nc", "--json"]) == 0
    found = valid(capsys.readouterr().out)
    assert (found["status"], found["complete"]) == ("passed", False)
    assert found["missing"] == ["There is no summary table: no table today"]
    assert main(["check", "model.py", "good.nc"]) == 0
    assert "no table today" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.default_stack
def test_modes_are_looked_for_unless_they_are_not_wanted(tmp_path, capsys):
    """Draws of one of two modes pass where nobody looks for the other."""
    text = 'import pymc as pm\nwith pm.Model() as model:\n    pm.NormalMixture("mu", [0.6, 0.4], '
    (tmp_path / "two.py").write_text(f"{text}[0, 8], sigma=[1, 1])\n")
    draws(tmp_path / "one.nc", sd=1.0)
    place = ["check", str(tmp_path / "two.py"), str(tmp_path / "one.nc"), "--json"]
    assert main([*place, "--no-modes"]) == 0
    assert valid(capsys.readouterr().out)["modes"] is None
    for options in ([], ["--modes"]):
        assert main([*place, *options]) == 1
        found = valid(capsys.readouterr().out)["modes"]
        assert found["status"] == "rejected"
        assert [one["place"] for one in found["modes"]] == ["mu = 0", "mu = 8"]


@pytest.mark.usefixtures("at")
def test_draws_of_the_models_own_data_belong_to_it(capsys):
    assert main(["check", "model.py", "own_data.nc", "--json"]) == 0
    found = valid(capsys.readouterr().out)
    assert found["sampler"]["mismatch"] == ""
    assert (found["cause"], found["reasons"]) == (None, [])
    assert found["next_steps"][0]["action"] == "use_draws"


@pytest.mark.slow
@pytest.mark.default_stack
@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(("file", "cause"), [("other.nc", "mismatch"), ("gaps.nc", None)])
def test_draws_of_other_variables_are_told_from_draws_that_cannot_be_used(file, cause, capsys):
    assert main(["check", "model.py", file, "--json"]) == 2
    found = valid(capsys.readouterr().out)
    assert found["cause"] == cause
    assert [one["code"] for one in found["reasons"]] == [cause or "could_not_run"]


@pytest.mark.slow
@pytest.mark.newer_stack
@pytest.mark.usefixtures("at")
def test_other_draws_are_ranked_beside_those_that_are_checked(capsys):
    others = ["--compare", "shifted=off.nc", "--compare", "prior=prior.nc"]
    assert main(["check", "model.py", "good.nc", *others, "--json"]) == 0
    found = valid(capsys.readouterr().out)["comparison"]
    assert list(found) == ["checked", "shifted", "prior"]
    assert [one["status"] for one in found.values()] == ["passed", "rejected", "rejected"]
    assert found["shifted"]["bias_mean"] == pytest.approx(0.5, abs=0.1)
    # The draws that are checked decide, whatever the others are.
    assert main(["check", "model.py", "off.nc", "--compare", "right=good.nc"]) == 1
    assert "ess_per_second" in capsys.readouterr().out
    assert main(["check", "model.py", "good.nc", "--compare", "no=other.nc", "--json"]) == 2
    found = valid(capsys.readouterr().out)
    assert found["comparison"]["no"]["status"] == "not tested"
    problem = "no was not compared: `data` lacks"
    assert problem in found["reasons"][0]["text"]
    assert found["reason"].startswith(problem)
    assert [problem in one["text"] for one in found["next_steps"]] == [True]


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize("given", ["good.nc", "=good.nc", "a=", "checked=good.nc"])
def test_draws_to_compare_have_names(given, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["check", "model.py", "good.nc", "--compare", given])
    assert stop.value.code == 2
    assert "must be NAME=DRAWS.nc" in capsys.readouterr().err


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("sampler", "code", "status", "action"),
    [
        ("samplers.py:exact", 0, "passed", "use_sampler"),
        ("samplers:narrow", 1, "rejected", MEND),
        ("samplers:broken", 2, "not tested", MEND),
        ("samplers:leaves", 2, "not tested", MEND),
    ],
)
def test_samplers_are_tried(sampler, code, status, action, capsys):
    place = ["battery", sampler, "--targets", "normal", "--no-controls"]
    assert main([*place, "--json"]) == code
    found = valid(capsys.readouterr().out)
    assert found["kind"] == "battery"
    assert found["targets"]["normal"]["status"] == status
    assert {one["action"] for one in found["next_steps"]} == {action}
    assert found["cause"] == ("sampler" if code == 1 else None)
    assert [one["about"] for one in found["reasons"]] == (["normal"] if code == 2 else [])
    assert bool(found["reason"]) == (code == 2)
    (step,) = found["next_steps"]
    assert step["text"].startswith(("Use the sampler", "Look for an error", "Fix the sampler's"))
    assert ("normal" in step["text"]) == (code != 0)
    assert main(place) == code
    printed = capsys.readouterr()
    assert "normal" in printed.out
    assert ("no draws today" in printed.err) == sampler.endswith("broken")
    assert ("SystemExit: 0" in printed.err) == sampler.endswith("leaves")
    assert "target(s)" not in printed.out
    # A pipe gets lines as they are, however long.
    (reason,) = [line for line in printed.out.splitlines() if "  - normal: " in line] or [""]
    assert reason.endswith(").") == (code != 0)


def test_every_reason_of_a_battery_has_an_action_and_a_step():
    statuses = {"passed": "", "cannot tell": "The chains disagree.", "not tested": "no draws"}
    rows = [{"status": status, "reason": reason} for status, reason in statuses.items()]
    table = pd.DataFrame([Judged(**row).row() for row in rows], index=["a", "b", "c"])
    controls = {"target": "a", "caught": False, "status": "passed", "p_value": 0.5, "error": "all"}
    result = BatteryResult(
        table.assign(trouble=""),
        pd.DataFrame([controls], index=["wrong"]),
        0.05,
        {"seed": 1, "level_of_a_target": 0.01},
    )
    found = valid(json.dumps(of_battery(result, 2)))
    actions = ["run_longer_chains", MEND, "run_again"]
    assert [one["action"] for one in found["next_steps"]] == actions
    for reason, step in zip(found["reasons"], found["next_steps"], strict=True):
        assert reason["about"] in step["text"]
        assert reason["text"] not in step["text"]


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("p_value", "action", "step"),
    [
        (0.03, "repeat_with_other_data", "Repeat the check with other data"),
        (0.005, "extend_model", "Try a likelihood"),
    ],
)
def test_weak_evidence_against_the_model_is_no_reason_to_extend_it(
    p_value, action, step, capsys, monkeypatch
):
    def misfit(*args, **options):
        return ksd_ppc(*args, **options).assign(p_value=p_value).assign_attrs(status="rejected")

    monkeypatch.setattr("pymc_ksd.report.run_checks.ksd_ppc", misfit)
    assert main(["check", "model.py", "good.nc", "--ppc", "--json"]) == 1
    found = valid(capsys.readouterr().out)
    assert found["cause"] == "model"
    (next_step,) = found["next_steps"]
    assert next_step["action"] == action
    assert next_step["text"].startswith(step)


@pytest.mark.usefixtures("at")
@pytest.mark.parametrize(
    ("sampler", "reason"),
    [
        ("samplers", "a sampler is given as module:function"),
        ("nowhere.py:exact", "there is no file nowhere.py"),
        ("nowhere_at_all:exact", "nowhere_at_all failed with ModuleNotFoundError"),
        ("samplers:nothing", "samplers has no 'nothing'"),
        ("samplers:number", "must be a function, got int"),
    ],
)
def test_samplers_that_cannot_be_found(sampler, reason, capsys):
    assert main(["battery", sampler, "--json"]) == 2
    printed = capsys.readouterr()
    assert reason in printed.err
    assert valid(printed.out)["reasons"][0]["code"] == "could_not_run"


def test_every_code_is_in_the_schema():
    from pymc_ksd.diagnostics.reasons import CODES
    from pymc_ksd.report.machine_readable import _ACTIONS, SCHEMA_VERSION

    definitions = SCHEMA["$defs"]
    assert set(definitions["reason_code"]["enum"]) == {"", *CODES}
    codes = set(definitions["reason"]["properties"]["code"]["enum"])
    assert {*CODES, *_ACTIONS} <= codes
    assert set(_ACTIONS.values()) <= set(definitions["next_step"]["properties"]["action"]["enum"])
    assert SCHEMA["title"].endswith(f"version {SCHEMA_VERSION.split('.')[0]}")
    with pytest.raises(jsonschema.ValidationError):
        valid(json.dumps({"schema_version": SCHEMA_VERSION, "kind": "check"}))
