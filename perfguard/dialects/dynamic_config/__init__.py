"""The configuration file of a dynamic profiler."""
