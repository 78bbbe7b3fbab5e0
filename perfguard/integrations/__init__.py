"""Integrations: the configuration of other tools, read and done as they would do it.

MindFormers' YAML, the tools.json of MindSpeed-MM and the profiler_config.json of dynamic profiling say what is to be profiled;
`offline` has a profiler's own analyser run over what was collected. Frameworks are imported here inside functions only.
"""
