"""The version, apart from the public names: what lies below them asks for it as well."""

__version__ = "0.2.0"
