"""Pythons of other versions and other packages, in environments of their own.

They are made once and kept in pytest's cache. Without the Python they need, or a package index, what needs them is skipped.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from filelock import FileLock

#: What an environment needs: a Python, and packages. MindInsight and MindSpore 2.0 are of one time, and share theirs.
ENVIRONMENTS = {
    "mindspore-2.0.0": (
        "python3.9",
        ["mindspore==2.0.0", "mindinsight==2.3.1", "numpy<1.24", "pillow<10", "protobuf<4"],
    ),
    "mindspore-2.7.0": (f"python3.{sys.version_info.minor}", ["mindspore==2.7.0", "numpy<2"]),
}


def interpreters(name: str) -> list[Path]:
    """Return where a Python may be: on the PATH, or where pyenv keeps it without putting it there."""
    on_path = shutil.which(name)
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    kept = sorted(root.glob(f"versions/{name.removeprefix('python')}.*/bin/{name}"))
    return [*([Path(on_path)] if on_path else []), *kept]


def works(path: Path) -> bool:
    """Whether it is one: pyenv puts a name on the PATH for every version, and says there that it is not to be used."""
    return subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0


def interpreter(name: str, places: Path) -> Path:
    """Return the Python of an environment, made below `places` where it is not there yet; or skip."""
    base, packages = ENVIRONMENTS[name]
    place = places / name
    found = next((path for path in interpreters(base) if works(path)), None)
    if found is None:
        pytest.skip(f"there is no {base} here, which {name} needs")
    with FileLock(f"{place}.lock"):
        whole = place / "whole"
        if not (whole.is_file() and whole.read_text() == "\n".join(packages)):
            shutil.rmtree(place, ignore_errors=True)
            subprocess.run([found, "-m", "venv", place], check=True, capture_output=True)
            # What is never imported need not be compiled; the processes that import the rest keep their byte code.
            pip = [place / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-compile"]
            done = subprocess.run([*pip, *packages], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"{name} cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
            whole.write_text("\n".join(packages))
    return place / "bin" / "python"
