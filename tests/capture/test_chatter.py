"""What a profiler writes to stderr in every run is one line; what may be a reason is kept."""

from __future__ import annotations

import pytest

from perfguard.capture.chatter import folded, is_chatter
from perfguard.capture.command import last_line

#: Of torch 1.13 to 2.14, on Linux and macOS.
CHATTER = [
    "USDT:2026-11-29 09:58:33 14500:14500 SyncActivityProfilerHandler.cpp:52] profiler_start",
    "STAGE:2023-10-30 16:06:28 16591:16591 ActivityProfilerController.cpp:312] Completed Stage: Warm Up",
    "INFO:2022-11-02 10:01:01 7:7 CuptiActivityProfiler.cpp:241] CUDA versions. CUPTI: 16; Runtime: 11070",
    "ERROR:2026-11-29 10:44:56 18747:18747 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 35",
    "[W CPUAllocator.cpp:305] Memory block of unknown size was allocated before the profiling started, profiler results",
    "[W806 10:02:48.299357116 CPUAllocator.cpp:245] Memory block of unknown size was allocated before the profiling started",
    "[W1129 09:58:33.382505279 CPUAllocator.cpp:245] Memory block of unknown size was allocated before the profiling started",
]
#: Warnings and errors, and what a model prints.
KEPT = [
    "WARNING:2026-11-29 09:58:33 14500:14500 CuptiActivityApi.cpp:52] function cbapi->getCuptiStatus() failed",
    "ERROR:2026-11-29 09:58:33 14500:14500 CuptiActivityProfiler.cpp:52] CUPTI_ERROR_INSUFFICIENT_PRIVILEGES",
    "ERROR:2026-11-29 10:44:56 18747:18747 DeviceProperties.cpp:56] gpuGetDeviceCount failed with code 999",
    "[W1129 09:58:33.382505279 init.cpp:155] function cbapi->getCuptiStatus() failed with error",
    "[E1129 09:58:33.382505279 ProcessGroupNCCL.cpp:616] Watchdog caught collective operation timeout",
    "INFO: epoch 3",
    "the log says USDT:2026-11-29 09:58:33 14500:14500 SyncActivityProfilerHandler.cpp:52] profiler_start",
    "",
]


@pytest.mark.parametrize("line", CHATTER)
def test_what_is_written_in_every_run_is_chatter(line):
    assert is_chatter(line)


@pytest.mark.parametrize("line", KEPT)
def test_a_warning_an_error_and_the_line_of_a_model_are_kept(line):
    assert not is_chatter(line)


def test_chatter_is_one_line_that_says_how_to_see_it():
    text = f"{CHATTER[0]}\nloss 0.3\n{CHATTER[3]}\n{KEPT[1]}\n"
    lines = folded(text).splitlines()
    assert lines[:2] == ["loss 0.3", KEPT[1]]
    assert lines[2:] == ["(perfguard: 2 lines that torch's profiler writes in every run; pytest -v shows them)"]


@pytest.mark.parametrize("text", ["", "loss 0.3", "loss 0.3\n\n", f"{KEPT[0]}\r\n"])
def test_a_text_without_chatter_stays_as_it_is(text):
    assert folded(text) == text


def test_the_last_words_of_a_process_are_no_chatter_unless_it_wrote_nothing_else():
    assert last_line(f"killed by the administrator\n{CHATTER[0]}\n") == "killed by the administrator"
    assert last_line(f"{CHATTER[0]}\n") == CHATTER[0]
