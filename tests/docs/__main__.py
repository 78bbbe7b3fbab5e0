"""`python -m tests.docs PAGE ...` runs the commands of pages, and prints what they print today, to be pasted."""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.docs.commands import new_project, outputs

for name in sys.argv[1:]:
    with TemporaryDirectory() as folder:
        for block, command, _, printed in outputs(Path(name).resolve(), new_project(Path(folder) / "project")):
            print(f"{block.place}\n$ {command}\n{printed}")
