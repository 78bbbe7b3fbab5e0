"""The environment of the other tools: made by one command, apart from perfguard's, because their pins are others."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def python_of(directory: Path) -> Path:
    """Return the Python of the peers' environment in `directory`; makes it where it is not there.

    What it holds is the extra `peers` of pyproject.toml, without perfguard. Raises `CalledProcessError` where pip cannot
    install it.
    """
    python = directory / "bin" / "python"
    done = directory / "installed.txt"
    wanted = required()
    if done.is_file() and done.read_text(encoding="utf-8").split("\n") == wanted:
        return python
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", *wanted], check=True)
    done.write_text("\n".join(wanted), encoding="utf-8")
    return python


def required() -> list[str]:
    """Return what pyproject.toml asks for under `peers`."""
    document = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    found: list[str] = document["project"]["optional-dependencies"]["peers"]
    return found


def versions(python: Path) -> dict[str, str]:
    """Return the versions of the peers, and of what they compute with."""
    code = (
        "import importlib.metadata as m, json;"
        "print(json.dumps({n: m.version(n) for n in ('HolisticTraceAnalysis', 'msprof-analyze', 'pandas', 'numpy')}))"
    )
    done = subprocess.run([str(python), "-c", code], check=True, capture_output=True, text=True)
    found: dict[str, str] = json.loads(done.stdout)
    return found
