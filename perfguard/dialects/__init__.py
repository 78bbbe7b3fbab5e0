"""Dialects: what the tables of one profiler mean, and what they promise.

`cycle` is what one rank left in one window. `executions`, `memory` and `shapes` read what ran from whichever file has it;
`invariants` and `folds` are what must hold across files and steps.
"""
