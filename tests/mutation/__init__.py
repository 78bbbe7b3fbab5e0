"""The validator validates itself: directories that are right, corrupted one way each, must be found out.

`python -m tests.mutation` prints how many mutants `perfguard check` finds, by family and by mutator, lists what it misses, and
says which mutants a profiler is free to write. Exit 1 where a family falls below its recorded share, where `check` raises, or
where a right directory is refused. `--record` stores the shares of a run and writes them into the docs.
"""
