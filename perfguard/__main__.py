"""`python -m perfguard`: the same command line."""

from perfguard.cli import main

if __name__ == "__main__":
    main()
