"""A PostgreSQL server of the tests' own, started from the programs that are installed here.

It runs as another user where the tests are root's, because PostgreSQL refuses to be root, and lives in a temporary directory on
a free port of this machine.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

#: A user that owns nothing, for a server that is started by root.
_UNPRIVILEGED = ("postgres", "nobody")
_PASSWORD = "a-secret-of-the-tests"


def programs() -> Path | None:
    """Return the directory of PostgreSQL's programs, None where there are none."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return installed[-1].parent if installed else None


class Server:
    """A server that can be stopped and started again; `url` leads to a database of its own, `secret` is its password."""

    secret = _PASSWORD

    def __init__(self, place: Path, *, fsync: bool) -> None:
        found = programs()
        assert found is not None
        self._programs = found
        self._place = place
        self._data = place / "data"
        self._fsync = "on" if fsync else "off"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def url(self, database: str = "postgres") -> str:
        """Return the URL of a database, with the password in it."""
        return f"postgresql://perfguard:{_PASSWORD}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Write an empty cluster."""
        (self._place / "password").write_text(_PASSWORD, encoding="utf-8")
        if (user := _user()) is not None:
            os.chmod(self._place, 0o755)
            shutil.chown(self._place, user)
            shutil.chown(self._place / "password", user)
        self._call(
            "initdb", "-D", self._data, "-U", "perfguard", "-A", "scram-sha-256", "--no-sync", "--pwfile", "password"
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        options = f"-p {self.port} -k {self._place} -c listen_addresses=127.0.0.1 -c fsync={self._fsync}"
        self._call("pg_ctl", "-D", self._data, "-o", options, "-l", self._place / "log", "-w", "-t", "60", "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop it: `immediate` as a power cut does."""
        self._call("pg_ctl", "-D", self._data, "-m", mode, "-w", "-t", "60", "stop")

    def made(self, database: str) -> str:
        """Make an empty database and return its URL."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f'CREATE DATABASE "{database}"')
        return self.url(database)

    def _call(self, program: str, *arguments: object) -> None:
        options: dict[str, Any] = {}
        if (user := _user()) is not None:
            options = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        done = subprocess.run(
            [str(one) for one in (self._programs / program, *arguments)],
            cwd=self._place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # the server that pg_ctl leaves behind would keep a pipe open
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C.UTF-8", "HOME": str(self._place)},
            timeout=600,
            check=False,
            **options,
        )
        if done.returncode:
            log = self._place / "log"
            raise RuntimeError(f"{program}: status {done.returncode}; {log.read_text()[-500:] if log.exists() else ''}")


def _user() -> str | None:
    """Return whom the server is to be, None for the user of the tests."""
    if os.geteuid() != 0:
        return None
    known = {one.pw_name for one in pwd.getpwall()}
    return next(name for name in _UNPRIVILEGED if name in known)


@contextmanager
def running(*, fsync: bool = False) -> Iterator[Server]:
    """Give a server that runs, and end it; without `fsync` it is quicker, and survives all but a power cut."""
    # Not below pytest's own directories, which only their owner may enter.
    with tempfile.TemporaryDirectory(prefix="perfguard-postgres-") as name:
        server = Server(Path(name), fsync=fsync)
        server.create()
        server.start()
        try:
            yield server
        finally:
            try:
                server.stop()
            except RuntimeError:
                time.sleep(0.1)  # a test stopped it
