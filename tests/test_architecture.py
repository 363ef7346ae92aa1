"""The direction of imports is the design: data walk through once, left to right."""

import ast
from pathlib import Path

import pytest

import pymc_ksd

PACKAGE = Path(pymc_ksd.__file__).parent
#: Modules in the order in which they may be built on: each may import only earlier ones.
ORDER = [
    "_version",
    "compilation",
    "progress",
    "sample_data",
    "lattice",
    "model_variables",
    "free_density",
    "observation_layout",
    "observation_functions",
    "observed_density",
    "observation_places",
    "fitted_density",
    "score",
    "draws",
    "posterior_given",
    "predictive_density",
    "kernels",
    "custom_kernels",
    "points",
    "scored_points",
    "draw_stream",
    "covariates",
    "residuals",
    "block_loops",
    "kernel_code",
    "fused_block",
    "stein",
    "birth_death",
    "block_walk",
    "pair_totals",
    "cluster",
    "engine",
    "witness",
    "nulls",
    "statistics",
    "results",
    "explanations",
    "convergence",
    "verdict",
    "goodness_of_fit",
    "sampler_quality",
    "summary_table",
    "predictive_check",
    "plots.options",
    "plots.null_distribution",
    "plots.evolution",
    "plots.contributions",
    "plots.predictive",
    "plots.witness",
    "plots",
    "report_page",
    "report",
    "reporting",
    "command_line",
    "demonstration",
    "__main__",
    "__init__",
]
PLOTS = {"plots.null_distribution", "plots.evolution", "plots.contributions"} | {
    "plots.predictive",
    "plots.witness",
}
MODELS = {"free_density", "lattice", "model_variables", "observation_layout"} | {
    "observation_functions",
    "observed_density",
    "observation_places",
    "fitted_density",
    "posterior_given",
    "predictive_density",
    "covariates",
    "score",
}


def modules():
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts)
        yield name.removesuffix(".__init__") if len(parts) > 1 else name, path


def imports(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {path}"
            yield node.module


def test_every_module_has_a_place():
    assert sorted(name for name, _ in modules()) == sorted(ORDER)


@pytest.mark.parametrize(("name", "path"), list(modules()), ids=lambda value: str(value))
def test_imports_point_one_way(name, path):
    for imported in imports(path):
        if imported.startswith("pymc_ksd."):
            inner = imported.removeprefix("pymc_ksd.")
            assert ORDER.index(inner) < ORDER.index(name), f"{name} imports {inner}"


@pytest.mark.parametrize(
    ("library", "allowed"),
    [
        (
            "pymc",
            MODELS
            | {"results", "goodness_of_fit", "sampler_quality", "summary_table"}
            | {"predictive_check"}
            | {"reporting", "command_line", "demonstration", "__init__"},
        ),
        (
            "xarray",
            {
                "sample_data",
                "draws",
                "draw_stream",
                "covariates",
                "results",
                "goodness_of_fit",
                "sampler_quality",
            }
            | {"predictive_check", "summary_table", "demonstration", "plots.options", *PLOTS}
            | {"explanations", "convergence", "verdict", "report", "reporting", "command_line"},
        ),
        ("arviz_plots", PLOTS),
        (
            "rich",
            {"progress", "kernels", "explanations", "report", "command_line", "demonstration"},
        ),
    ],
)
def test_libraries_stay_in_their_rooms(library, allowed):
    users = {
        name for name, path in modules() if library in {i.split(".")[0] for i in imports(path)}
    }
    assert users <= allowed


def test_modules_stay_small():
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules()}
    assert max(lengths.values()) <= 450, lengths
