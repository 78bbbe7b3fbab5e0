"""A command's end, in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from perfguard.capture.command import END_WITH_PARENT, Ended


@pytest.mark.parametrize(
    ("ended", "said", "sentence"),
    [
        (Ended(status=0), "", "ended with status 0 and timed nothing"),
        (Ended(status=1), "no luck", "ended with status 1 and timed nothing: no luck"),
        (Ended(status=134), "", "was ended by SIGABRT"),
        (Ended(status=137), "x", "was ended by SIGKILL, as a process is that the system ran out of memory for: x"),
        # Statuses that a program chose by itself, such as exit(-1).
        (Ended(status=128), "", "ended with status 128 and timed nothing"),
        (Ended(status=255), "", "ended with status 255 and timed nothing"),
        (Ended(status=0, timed_out=True), "", "was ended after 10 seconds"),
    ],
)
def test_every_ending_has_its_words(ended, said, sentence):
    assert ended.sentence(10.0, said) == sentence


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process of its parent's end")
def test_a_process_ends_with_the_one_that_started_it():
    child = f"{END_WITH_PARENT}; import time; print('begun', flush=True); time.sleep(600)"
    # The one that starts it is killed once it has begun; its standard error ends when the child has ended as well.
    parent = (
        "import os, subprocess, sys; "
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], stdout=subprocess.PIPE, start_new_session=True); "
        "child.stdout.readline(); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", parent], stderr=subprocess.PIPE, timeout=60, check=False)
    assert done.returncode == -9
