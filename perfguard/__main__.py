"""Run the command line as `python -m perfguard`."""

import sys

if __name__ == "__main__":
    if not sys.flags.safe_path:
        # Python puts the working directory first, from which the command `perfguard` imports nothing.
        del sys.path[0]
    from perfguard.cli import main

    main()
