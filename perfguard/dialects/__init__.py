"""Dialects: what the tables of one profiler mean, and what they promise.

`cycle` is what one rank left in one window. `executions`, `memory` and `shapes` read what ran from whichever file has it;
`trace`, `torch` and `ascend` are SQL for traces, which `queries` loads; `invariants` is what must hold in other files.
"""
