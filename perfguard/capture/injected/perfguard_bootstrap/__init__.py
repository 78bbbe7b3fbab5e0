"""What runs in a process that `perfguard run` records: standard library only, Python 3.7 and later."""
