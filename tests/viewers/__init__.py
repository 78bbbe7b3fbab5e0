"""Scripts that run in the environment of somebody else's viewer: they load what perfguard left, and print JSON."""
