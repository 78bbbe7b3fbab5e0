"""The version, the name of the distribution, and the commands that install it."""

import json
import os
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from shlex import quote
from urllib.parse import urlsplit
from urllib.request import url2pathname

try:
    from perfguard._version import __version__ as __version__
except ModuleNotFoundError:
    # A source tree that was neither built nor installed.
    __version__ = "0+unknown"

#: The address of the project: its repository or its site, with a slash at the end. Empty until there is one that can be opened;
#: whatever would show a link shows none then.
ADDRESS = ""
#: The name of the distribution. The import, the command and the pytest option are `perfguard`.
DISTRIBUTION = "perfguard-ml"
#: Stands for a clone or a wheel of perfguard in a command, where it is not known which. It is a path, which no index looks up:
#: the name of a distribution that nobody has registered is anybody's to register.
SOMEWHERE = "/path/to/perfguard"


@dataclass(frozen=True)
class Origin:
    """What perfguard was installed from: a path or a URL, empty if that is not known or is gone."""

    address: str = ""
    editable: bool = False

    def requirement(self, extra: str = "") -> str:
        """Return what `pip install` takes, quoted for a shell."""
        extras = f"[{extra}]" if extra else ""
        if "://" in self.address:
            return quote(f"{DISTRIBUTION}{extras} @ {self.address}")
        named = quote(f"{self.address or SOMEWHERE}{extras}")
        return f"-e {named}" if self.editable else named


@cache
def origin() -> Origin:
    """Return what perfguard was installed from. source: PEP 610, direct_url.json, which pip writes if it was not an index."""
    try:
        recorded = distribution(DISTRIBUTION).read_text("direct_url.json")
    except PackageNotFoundError:
        recorded = None
    return read_origin(recorded)


def read_origin(recorded: str | None) -> Origin:
    """Return what a direct_url.json names."""
    try:
        found = json.loads(recorded or "{}")
        url = str(found.get("url", ""))
        version_control = found.get("vcs_info")
        editable = bool(found.get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        # Written by something else than PEP 610 describes.
        return Origin()
    if version_control:
        return Origin(f"{version_control.get('vcs', 'git')}+{url}@{version_control.get('commit_id', 'HEAD')}")
    if not url.startswith("file:"):
        return Origin(url)
    path = url2pathname(urlsplit(url).path)
    return Origin(path, editable) if os.path.exists(path) else Origin()


def install_command(extra: str) -> str:
    """Return the command that installs an extra, quoted for a shell."""
    return f"pip install {origin().requirement(extra)}"


def upgrade_command() -> str:
    """Return the command for a message about something that a newer perfguard wrote."""
    found = origin()
    if os.path.exists(os.path.join(found.address, ".git")):
        return f"git -C {quote(found.address)} pull && pip install {found.requirement()}"
    return "pip install /path/to/a/newer/perfguard"


def reinstall_command() -> str:
    """Return the command for a message about damaged files of perfguard."""
    return f"pip install --force-reinstall {origin().requirement()}"


def same_version(version: str, pip: str = "pip") -> str:
    """Return the command that installs this version of perfguard elsewhere."""
    return f"{pip} install {Origin(origin().address).requirement()} (the one that is installed here: {version})"
