"""Dialects: what the tables of one profiler mean, and what they promise.

`cycle` is what one rank left in one window. `work`, `listed` and `ascend.kernels` say what ran, from whichever file has it;
`counts` is what rules ask of it, `sums` and `memory` what metrics do;
`trace`, `torch` and `ascend` are SQL for traces, which `queries` loads; `invariants` is what must hold in other files.
"""
