"""Distributions for tests: files and their metadata on a path, as pip leaves them, without pip."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

TOY = Path(__file__).parent / "data" / "perfguard-toy"
#: What perfguard-toy adds, by group.
TOY_ENTRIES = {
    "backends": {"toyframe": "perfguard_toy.parts:ToyBackend"},
    "dialects": {"toy": "perfguard_toy"},
    "readers": {"toy": "perfguard_toy.parts:read_toy"},
    "reporters": {"one-line": "perfguard_toy.parts:OneLine"},
    "stores": {"cellar": "perfguard_toy.parts:Cellar"},
}
JAX = Path(__file__).parent.parent / "examples" / "perfguard-jax"


def add_distribution(place: Path, name: str, entries: Mapping[str, Mapping[str, str]]) -> None:
    """Write the metadata of a distribution that has entry points, by group, into a directory of a Python path."""
    info = place / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n", encoding="utf-8")
    sections = (
        f"[perfguard.{group}]\n" + "".join(f"{one} = {value}\n" for one, value in named.items())
        for group, named in entries.items()
    )
    (info / "entry_points.txt").write_text("\n".join(sections), encoding="utf-8")


def python_path(*places: Path) -> dict[str, str]:
    """Return the environment in which Python finds what lies in some directories."""
    return {"PYTHONPATH": ":".join(map(str, places))}
