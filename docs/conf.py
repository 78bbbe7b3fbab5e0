"""The documentation site: Sphinx builds it from the Markdown of this folder."""

from __future__ import annotations

import perfguard

project = "perfguard"
author = "the perfguard maintainers"
release = perfguard.__version__
language = "en"

#: Where the site is published. The README, which an index shows too, links to this address and nothing else does;
#: tests/docs maps it to the files of this folder. The ids of the JSON Schemas have the same host.
html_baseurl = "https://perfguard.dev/docs/"

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
linkcheck_ignore = [
    # Published by the workflow that checks these links.
    r"https://perfguard\.dev/.*",
    # Files of this repository: tests/docs looks whether they are there.
    r"https://github\.com/perfguard/perfguard/.*",
]
