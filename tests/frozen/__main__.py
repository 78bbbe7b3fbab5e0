"""`python -m tests.frozen`."""

from __future__ import annotations

import sys

from tests.frozen.run import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
