"""The revisions of a history's tables, one a module; each knows the one before it."""
