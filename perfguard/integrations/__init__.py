"""Integrations: the configuration of other tools, read as those tools read it.

MindFormers' YAML, the tools.json of MindSpeed-MM and the profiler_config.json of dynamic profiling say what to profile;
`offline` runs a profiler's own analyser on raw profiler output. Frameworks are imported here inside functions only.
"""
