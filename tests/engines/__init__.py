"""The engines: what they do of themselves, with calls that are not perfguard's."""
