"""The index of the reference."""

from __future__ import annotations

from collections.abc import Mapping

#: The question that each page answers.
_ANSWERS = {
    "command-line.md": "Every command with its arguments, options, defaults and exit codes.",
    "settings.md": "Every key of pyproject.toml, option of pytest and environment variable.",
    "marker-and-fixture.md": "What a test can set, and what it can call.",
    "metrics.md": "Everything that is measured: class, unit, direction, default tolerance.",
    "findings.md": "Every code: severity, cause, fix, and the checks that raise it.",
    "grid.md": "Which invariant is checked for which kind of output, which cannot hold there, and which is missing.",
    "layouts.md": "Every file of a profiler that perfguard knows: when it must be there, and its columns.",
    "tables.md": "The tables that `perfguard sql` and checks in SQL query.",
    "reports.md": "The formats that perfguard writes, key by key.",
    "python-api.md": "The public names of `perfguard` and `perfguard.testing`.",
}


def page(texts: Mapping[str, str], of_the_site: Mapping[str, str]) -> str:
    """Return the index of pages, given by file name; those of the site alone with the command that prints the same."""
    names = [name.removesuffix(".md") for name in texts]
    titles = {name: text.splitlines()[0].removeprefix("# ") for name, text in texts.items()}
    rows = [
        f"* {titles[name]} (on the site, or `{of_the_site[name]}`): {_ANSWERS[name]}"
        if name in of_the_site
        else f"* [{titles[name]}]({name}): {_ANSWERS[name]}"
        for name in texts
    ]
    return "\n".join(
        [
            "# Reference\n",
            "These pages are made from the code by `python -m docs.generate`, and a test fails when one is out of date.\n",
            *rows,
            "\n```{toctree}\n:hidden:\n:maxdepth: 1\n",
            *names,
            "```",
        ]
    )
