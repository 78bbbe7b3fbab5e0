"""What reading profiler output costs: perfguard beside plain parsers, other readers and other tools, in one run."""
