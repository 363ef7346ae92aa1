"""The rooms of the house: what each may import, also through others, and how large things are."""

import ast
from functools import cache
from pathlib import Path

import pytest

import pymc_ksd

PACKAGE = Path(pymc_ksd.__file__).parent
#: What each room may import; files beside the rooms are called by their own names.
ALLOWED = {
    "_version": set(),
    "options": set(),
    "compilation": set(),
    "models": {"compilation", "options"},
    "samples": {"models", "options"},
    "stein": {"compilation", "options"},
    "engine": {"stein", "compilation", "options"},
    "stats": {"engine", "stein", "options"},
    "diagnostics": {"stats", "engine", "stein", "samples", "models", "compilation", "options"}
    | {"_version"},
    "plots": {"diagnostics"},
    "samplers": {"diagnostics", "engine", "samples", "options"},
    "report": {
        "samplers",
        "plots",
        "diagnostics",
        "stats",
        "samples",
        "models",
        "options",
        "_version",
    },
}
#: Libraries that only some rooms know.
LIBRARIES = {
    "pymc": {"models", "samples", "diagnostics", "samplers", "report"},
    "xarray": {"samples", "diagnostics", "plots", "samplers", "report"},
    "pandas": {"samples", "diagnostics", "plots", "samplers", "report"},
    "arviz_plots": {"plots"},
    "rich": {"engine", "stein", "report"},
    "numba": {"engine"},
    "distributed": {"engine"},
}
#: Where everything is put together.
TOP = {"__init__", "__main__"}


def room_of(module):
    """The room of a module of the package, or its own name if it stands beside the rooms."""
    return module.removeprefix("pymc_ksd.").split(".")[0]


@cache
def modules():
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__") or "__init__"] = path
    return found


@cache
def imports(name):
    found = set()
    for node in ast.walk(ast.parse(modules()[name].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in {name}"
            found.add(node.module)
    return found


def own_imports(name):
    inner = {found.removeprefix("pymc_ksd.") for found in imports(name) if "pymc_ksd." in found}
    # The generated code of a kernel imports from the package, too, but is not a part of it.
    return {found for found in inner if found in modules()}


def closure(name):
    """All modules that are imported by a module, directly or through others."""
    waiting, found = [name], set()
    while waiting:
        for other in own_imports(waiting.pop()) - found:
            found.add(other)
            waiting.append(other)
    return found


def test_every_file_has_a_room():
    beside = {name for name in modules() if "." not in name and name not in ALLOWED}
    assert beside == TOP
    assert len([path for path in modules().values() if path.parent == PACKAGE]) <= 5


@pytest.mark.parametrize("room", ALLOWED)
def test_rooms_import_what_they_may(room):
    for name in modules():
        if room_of(name) == room:
            others = {room_of(other) for other in closure(name)} - {room}
            reach = set(ALLOWED[room])
            for other in ALLOWED[room]:
                reach |= ALLOWED[other]
            assert others <= reach, f"{name} imports {sorted(others - reach)}"
            direct = {room_of(other) for other in own_imports(name)} - {room}
            assert direct <= ALLOWED[room], f"{name} imports {sorted(direct - ALLOWED[room])}"


def test_rooms_form_an_order():
    done = set()
    while set(ALLOWED) - done:
        ready = {room for room in set(ALLOWED) - done if ALLOWED[room] <= done}
        assert ready, f"a circle among {set(ALLOWED) - done}"
        done |= ready


def test_no_module_imports_itself_through_others():
    assert [name for name in modules() if name in closure(name)] == []


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_stay_in_their_rooms(library):
    users = {
        name
        for name in modules()
        if library in {found.split(".")[0] for found in imports(name)} and name not in TOP
    }
    assert {room_of(name) for name in users} <= LIBRARIES[library], users


def functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            has_docstring = ast.get_docstring(node) is not None and len(node.body) > 1
            first = node.body[1] if has_docstring else node.body[0]
            yield node.name, node.end_lineno - first.lineno + 1


def test_modules_and_functions_stay_small():
    lengths = {name: len(path.read_text().splitlines()) for name, path in modules().items()}
    assert max(lengths.values()) <= 450, lengths
    long = [
        (name, function, lines)
        for name, path in modules().items()
        for function, lines in functions(path)
        if lines > 75
    ]
    assert long == []
