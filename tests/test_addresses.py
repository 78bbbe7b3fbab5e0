"""Every address, package and workflow that a text file of the repository names exists: what is not listed here fails."""

from __future__ import annotations

import re
import subprocess
import tomllib
from functools import cache
from pathlib import Path

import pytest

from perfguard.version import ADDRESS, DISTRIBUTION

TOP = Path(__file__).resolve().parent.parent

#: Hosts that exist, and what is there.
HOSTS = {
    "json-schema.org": "the meta-schema",
    "docs.oasis-open.org": "the schema of SARIF",
    "www.apache.org": "the licence",
    "keepachangelog.com": "the form of the changelog",
    "semver.org": "version numbers",
    "pypi.org": "hatch-vcs",
    "filesystem-spec.readthedocs.io": "fsspec",
    "docs.jax.dev": "JAX",
    "download.pytorch.org": "torch's wheels",
    "git-lfs.github.com": "the first line of a pointer of Git LFS",
    "ui.perfetto.dev": "the viewer that a page hands a trace to",
    "github.com": "the host; its repositories are in REPOSITORIES",
    "gitlab.com": "the host",
    "127.0.0.1": "this machine",
}
#: Repositories at github.com; none is named today.
REPOSITORIES: frozenset[str] = frozenset()
#: Stand for an address in tests: reserved (RFC 2606 and 6761), or not a host that resolves.
RESERVED = re.compile(r"(?:.*\.)?(?:example|invalid|test|localhost)|[a-z]{1,2}|host|hidden|", re.IGNORECASE)
#: GitHub's own actions, with the major version that exists.
ACTIONS = {
    "actions/checkout": "v4",
    "actions/setup-python": "v5",
    "actions/upload-artifact": "v4",
    "actions/download-artifact": "v4",
    "actions/cache/restore": "v4",
    "actions/cache/save": "v4",
    "actions/upload-pages-artifact": "v3",
    "actions/deploy-pages": "v4",
}
#: Distributions that exist on the index, besides those in pyproject.toml.
PACKAGES = frozenset({"s3fs", "jax", "pillow", "mindformers"})

URL = re.compile(r"https?://([^\s/\"'`<>()\[\]{}|,;:?#\\*]+)(?::[^\s/]*)?(/[^\s\"'`<>()\[\]{}|,;\\]*)?")
#: By the tag, or by the commit with the tag after it.
USES = re.compile(r"uses: *([\w./-]+)@(?:[0-9a-f]{40} # )?([\w-]+)")
INSTALL = re.compile(r"\bpip3? install((?: +(?:'[^']*'|\"[^\"]*\"|[^\s'\"`&|;)#]+))+)")


@cache
def texts() -> dict[str, str]:
    """Return every text file of the repository by its path, but recordings: what other programs wrote is theirs."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        pytest.skip("the files of the repository are listed by git, and this is no clone")
    found = {}
    for name in listed.stdout.decode().split("\0"):
        path = TOP / name
        if not path.is_file() or name.startswith(("tests/data/record", "tests/data/jax/")) or path == Path(__file__):
            continue
        content = path.read_bytes()
        if b"\0" not in content:
            found[name] = content.decode("utf-8", "replace")
    assert len(found) > 500
    return found


def unknown_addresses(text: str) -> list[str]:
    found = []
    for match in URL.finditer(text):
        host = match[1].rpartition("@")[2].rstrip(".")
        if RESERVED.fullmatch(host) or (ADDRESS and match[0].startswith(ADDRESS)):
            continue
        if host not in HOSTS or (host == "github.com" and not _is_known_repository(match[2] or "")):
            found.append(match[0])
    return found


def _is_known_repository(path: str) -> bool:
    parts = path.strip("/").split("/")
    # A placeholder of tests: `a/b`, `run/1`, or the host alone.
    return len(parts) < 2 or len(parts[0]) == 1 or parts[0] == "run" or "/".join(parts[:2]) in REPOSITORIES


def unknown_packages(text: str) -> list[str]:
    found = []
    for match in INSTALL.finditer(text):
        words = [word.strip("'\"") for word in re.findall(r"'[^']*'|\"[^\"]*\"|\S+", match[1])]
        skip = False
        for word in words:
            if skip or word.startswith("-"):
                # `-r FILE`, `-e PATH`, `--index-url URL`; others have no value.
                skip = not skip and word in (
                    "-r",
                    "-e",
                    "-c",
                    "--index-url",
                    "--extra-index-url",
                    "--outdir",
                    "--target",
                )
                continue
            name = re.split(r"[\[=<>!~ ]", word)[0]
            # A path, an address, a part that code fills in, or a word after the command in a sentence.
            if not re.fullmatch(r"[a-zA-Z][\w.-]*", name) or "/" in word or name.isupper() or name.endswith(".whl"):
                continue
            if name.lower().rstrip(".") not in known_packages():
                found.append(word)
    return found


@cache
def known_packages() -> frozenset[str]:
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[=<>!~; ]", line)[0].lower() for line in lines}
    return frozenset(names - {DISTRIBUTION} | PACKAGES)


def test_every_address_exists():
    assert {name: found for name, text in texts().items() if (found := unknown_addresses(text))} == {}


def test_every_package_that_a_command_installs_exists():
    assert {name: found for name, text in texts().items() if (found := unknown_packages(text))} == {}


def test_no_project_depends_on_a_name_that_nobody_has_registered():
    """perfguard's own extras name each other, which an installer resolves without an index."""
    projects = [name for name in texts() if name.rpartition("/")[2] == "pyproject.toml"]
    named = {name: tomllib.loads(texts()[name]).get("project", {}).get("dependencies", []) for name in projects}
    assert {"pyproject.toml", "examples/perfguard-jax/pyproject.toml"} <= named.keys()
    assert [name for name, found in named.items() if any(re.match(rf"{DISTRIBUTION}\b", one) for one in found)] == []


def test_every_action_of_a_workflow_exists():
    used = {(name, *match) for name, text in texts().items() for match in USES.findall(text)}
    assert len(used) >= 8
    assert [one for one in used if ACTIONS.get(one[1]) != one[2]] == []


@pytest.mark.parametrize("allowed", ["HOSTS", "ACTIONS"])
def test_nothing_is_allowed_that_is_not_used(allowed):
    everything = "\n".join(texts().values())
    assert [name for name in globals()[allowed] if name not in everything] == []


def test_metadata_names_no_address_before_there_is_one():
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert [url for url in project.get("urls", {}).values() if not ADDRESS or not url.startswith(ADDRESS)] == []


def test_what_nobody_has_registered_is_found():
    text = (
        "see https://perfguard.dev/docs/ and [a](https://github.com/perfguard/perfguard/blob/main/x.md), "
        f"then `pip install '{DISTRIBUTION}[torch]' torch`, or pip install --upgrade {DISTRIBUTION}\n"
    )
    addresses = ["https://perfguard.dev/docs/", "https://github.com/perfguard/perfguard/blob/main/x.md"]
    assert unknown_addresses(text) == addresses
    assert unknown_packages(text) == [f"{DISTRIBUTION}[torch]", DISTRIBUTION]
    assert unknown_addresses("https://docs.git.example/x http://127.0.0.1:9") == []
    assert unknown_packages("pip install -e '.[dev]' '/path/to/perfguard[html]' -r perfguard-ml torch==2.13.0") == []
