"""The documentation site: ``sphinx-build -W docs docs/_build/html``, with ``[docs]`` installed.

Notebooks are run while the site is built; ``-D nb_execution_mode=off`` leaves that out.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.insert(0, str(ROOT))
# Notebooks about the paper import the project's benchmarks.
os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])

from pymc_ksd._version import __version__  # noqa: E402

project = "pymc_ksd"
author = "the pymc_ksd developers"
release = version = __version__
html_title = f"pymc_ksd {release}"

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "numpydoc",
    "myst_nb",
]
templates_path = ["_templates"]
exclude_patterns = ["_build", "_templates", "**.ipynb_checkpoints"]

html_theme = "sphinx_book_theme"
html_theme_options = {"show_navbar_depth": 1, "home_page_in_toc": True, "navbar_persistent": []}
html_show_copyright = False
html_show_sourcelink = False

myst_enable_extensions = ["amsmath", "dollarmath"]
myst_heading_anchors = 3

nb_execution_mode = "force"
nb_execution_timeout = 900
nb_execution_raise_on_error = True
nb_merge_streams = True

autosummary_generate = True
autodoc_typehints = "none"
numpydoc_show_class_members = False


def copy_notebooks() -> None:
    """Bring the notebooks under the site's own folder, where Sphinx finds them."""
    target = DOCS / "notebooks"
    target.mkdir(exist_ok=True)
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        shutil.copy(notebook, target / notebook.name)


def lead_links_into_the_site(app: Any, name: str, source: list[str]) -> None:
    """Let links that work in a checkout work on the site too."""
    prefix = "" if "/" not in name else "../"
    source[0] = re.sub(r"\]\(\.\./notebooks/", f"]({prefix}notebooks/", source[0])


def setup(app: Any) -> None:
    """Prepare the build."""
    copy_notebooks()
    app.connect("source-read", lead_links_into_the_site)
