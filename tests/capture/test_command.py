"""A command's end, in words."""

from __future__ import annotations

import signal
import subprocess
import sys
import uuid

import pytest

from perfguard.capture.command import Ended, _marked
from tests.programs import wait_until


@pytest.mark.parametrize(
    ("ended", "said", "sentence"),
    [
        (Ended(status=0), "", "ended with status 0 and timed nothing"),
        (Ended(status=1), "no luck", "ended with status 1 and timed nothing: no luck"),
        (Ended(status=134), "", "was ended by SIGABRT"),
        (Ended(status=137), "x", "was ended by SIGKILL, which the system sends when memory runs out: x"),
        # Statuses that a program chose by itself, such as exit(-1).
        (Ended(status=128), "", "ended with status 128 and timed nothing"),
        (Ended(status=255), "", "ended with status 255 and timed nothing"),
        (Ended(status=0, timed_out=True), "", "was ended after 10 seconds"),
    ],
)
def test_every_ending_has_its_words(ended, said, sentence):
    assert ended.sentence(10.0, said) == sentence


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells which processes have a mark")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nothing_of_a_command_is_left_where_the_one_that_runs_it_is_ended(number, tmp_path):
    """Nor what it started in a session of its own, as a launcher does; whatever a CI job ends its processes by."""
    mark = str(uuid.uuid4())
    worker = "import time; open('begun', 'w').close(); time.sleep(600)"
    command = (
        "import subprocess, sys, time; "
        f"subprocess.Popen([sys.executable, '-c', {worker!r}], start_new_session=True); time.sleep(600)"
    )
    runs = (
        "import os, sys; from perfguard.capture.command import run_command; "
        f"run_command([sys.executable, '-c', {command!r}], environment={{**os.environ, 'OF_THE_TEST': {mark!r}}}, "
        f"mark='OF_THE_RUN', timeout_s=None, directory={str(tmp_path)!r})"
    )
    with subprocess.Popen([sys.executable, "-c", runs]) as process:
        wait_until((tmp_path / "begun").exists)
        assert len(_marked("OF_THE_TEST", mark)) == 2
        process.send_signal(number)
    wait_until(lambda: not _marked("OF_THE_TEST", mark))
