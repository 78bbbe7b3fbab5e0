"""The documentation site: Sphinx builds it from the Markdown of this folder."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import docs.generate
import perfguard
from perfguard.version import ADDRESS

project = "perfguard"
author = "the perfguard maintainers"
release = perfguard.__version__
language = "en"
html_baseurl = ADDRESS

extensions = ["myst_parser", "sphinx_copybutton"]
source_suffix = {".md": "markdown"}
nitpicky = True

# Headings have the anchors that GitHub gives them, so links work in both places.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "attrs_inline", "colon_fence", "deflist", "fieldlist", "html_image"]
# A link to a file of the repository that is not a page (a workflow, an example) offers that file.
suppress_warnings: list[str] = []

html_theme = "furo"
html_title = "perfguard"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
html_theme_options = {"navigation_with_keys": True}
# Without it a page of the search results would be the Markdown, not the HTML.
html_copy_source = False
html_show_sourcelink = False

# Commands are copied without their prompt and without what they print.
copybutton_prompt_text = "$ "
copybutton_only_copy_prompt_lines = True
copybutton_exclude = ".linenos, .gp, .go"

linkcheck_timeout = 20
linkcheck_retries = 2


def link_files_of_the_repository(app: Sphinx, docname: str, source: list[str]) -> None:
    """Offer Markdown files outside of this folder as files: a plain git host follows such a link, and MyST knows pages only."""
    folder = Path(app.srcdir, docname).parent

    def link(found: re.Match[str]) -> str:
        inside = (folder / found[2]).resolve().is_relative_to(Path(app.srcdir).resolve())
        return found[0] if inside else f"{{download}}`{found[1]} <{found[2]}>`"

    source[0] = re.sub(r"\[([^\]]+)\]\((\.\./[^)#]+\.md)\)", link, source[0])


def write_the_reference(app: Sphinx) -> None:
    """Write the pages that are made from the code: the longest are not in the repository."""
    docs.generate.write()


def setup(app: Sphinx) -> None:
    """Register what Sphinx calls."""
    app.connect("builder-inited", write_the_reference)
    app.connect("source-read", link_files_of_the_repository)
