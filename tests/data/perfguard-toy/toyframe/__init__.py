"""A framework, by its name alone."""
