"""Sphinx settings: `make docs` builds docs/_build/html, and every warning is an error."""

import os
import sys
from pathlib import Path

import combopeps

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

project = "combopeps"
author = "combopeps developers"
release = combopeps.__version__

extensions = [
    "myst_parser",  # pages in Markdown
    "sphinx.ext.autodoc",  # the reference from docstrings
    "sphinx_copybutton",  # copies code without its prompts
    "plain_docstrings",  # which are numpydoc, with equations as they are typed
]
if os.environ.get("READTHEDOCS") or os.environ.get("COMBOPEPS_INTERSPHINX"):  # needs the internet
    extensions.append("sphinx.ext.intersphinx")
    intersphinx_mapping = {
        "python": ("https://docs.python.org/3", None),
        "numpy": ("https://numpy.org/doc/stable", None),
        "scipy": ("https://docs.scipy.org/doc/scipy", None),
        "networkx": ("https://networkx.org/documentation/stable", None),
        "pandas": ("https://pandas.pydata.org/docs", None),
        "matplotlib": ("https://matplotlib.org/stable", None),
    }
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build", "results/paper/*.md"]  # the paper's tables stand in reproduction.md

html_theme = "furo"
html_title = f"combopeps {release}"
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["wide.css"]
smartquotes = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 3  # links to headings, as on code hosts

autodoc_default_options = {"members": True, "member-order": "bysource"}
autodoc_typehints = "none"  # the text says what is accepted
default_role = "py:obj"  # `identify` in a docstring is a link
nitpick_ignore_regex = [
    ("py:obj", ".*"),  # and `delta` is not
    ("py:class", r"(numpy|collections)\..*|Array"),  # of other projects, and an alias
]
