"""The version, the name of the distribution, and the commands that install it."""

try:
    from perfguard._version import __version__ as __version__
except ModuleNotFoundError:
    # A source tree that was neither built nor installed.
    __version__ = "0+unknown"

#: The address of the project: its repository or its site, with a slash at the end. Empty until there is one that can be opened;
#: whatever would show a link shows none then.
ADDRESS = ""
#: The name on a package index. The import, the command and the pytest option are `perfguard`.
DISTRIBUTION = "perfguard-ml"
#: The command for a message about something that a newer release wrote, and about damaged files of perfguard.
UPGRADE = f"pip install --upgrade {DISTRIBUTION}"
REINSTALL = f"pip install --force-reinstall {DISTRIBUTION}"


def install_command(extra: str) -> str:
    """Return the command that installs an extra, quoted for a shell."""
    return f"pip install '{DISTRIBUTION}[{extra}]'"


def same_version(version: str, pip: str = "pip") -> str:
    """Return the command that installs this version of perfguard elsewhere. No index has development versions."""
    if "dev" in version or "+" in version:
        return f"{pip} install DIRECTORY-OR-WHEEL (the one that is installed here: no index has {version})"
    return f"{pip} install {DISTRIBUTION}=={version}"
