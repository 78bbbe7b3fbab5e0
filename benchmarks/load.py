"""Busy processes beside what is measured: loops, copies of memory, a compiler."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

COMPILER = """
import pathlib, subprocess, sys, tempfile
source = pathlib.Path(tempfile.mkdtemp()) / "a.py"
source.write_text("".join(f"def f{n}(x): return [x + {n} for _ in range({n})]\\n" for n in range(3000)))
while True: subprocess.run([sys.executable, "-c", f"compile(open({str(source)!r}).read(), 'a', 'exec')"])
"""
#: One of them for every busy process, in this order.
HOGS = (
    "while True: pass",
    "import array\na = array.array('d', bytes(1 << 27))\nwhile True: b = a[:]",
    COMPILER,
)


@contextlib.contextmanager
def busy(processes: int) -> Iterator[None]:
    """Keep so many processes busy, of the kinds of `HOGS` in turn."""
    hogs = [
        subprocess.Popen([sys.executable, "-c", HOGS[number % len(HOGS)]], start_new_session=True)
        for number in range(processes)
    ]
    try:
        yield
    finally:
        for hog in hogs:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(hog.pid, 9)
            hog.wait()
