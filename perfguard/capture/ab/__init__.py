"""An A/B comparison: the processes of `perfguard ab`, as the process that starts them sees them.

pytest records each side in a process of its own. Then the steps of each workload are timed in pairs: both sides in one
process, step by step, if one process can hold both; else in two processes that take turns on one CPU. `plugin.side` is what
runs in them.
"""
