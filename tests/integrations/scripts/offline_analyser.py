"""Stands in for the analysers that cannot be run here: MindSpore 2.2 to 2.4, MindSpore on Ascend, torch_npu.

A test lays it out as `mindspore` or `torch_npu` (see `stand_in` in test_offline.py). It does what STAND_IN says, and writes
to STAND_IN_CALL how it was called. Signatures: the documents of 2.2 and 2.4, the wheels mindspore 2.10.0, torch_npu 2.7.1.
"""

import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path

BEHAVIOUR = os.environ["STAND_IN"]


def _told(**call):
    Path(os.environ["STAND_IN_CALL"]).write_text(json.dumps(call))


def _work(recording, results, *, simplify):
    if BEHAVIOUR == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if BEHAVIOUR == "hangs":
        # With a process of its own, as the analysers have.
        if os.fork() == 0:
            time.sleep(600)
        time.sleep(600)
    if BEHAVIOUR == "raises":
        raise RuntimeError("no msprof here")
    if BEHAVIOUR == "nothing":
        return
    if BEHAVIOUR in ("fails", "in part"):
        print(
            "[ERROR] ME(7:7,ForkProcess-1):2026-01-01-00:00:00.000.000 [a/b.py:70] Call to f failed. Exception: no msprof"
        )
    if BEHAVIOUR == "fails":
        return
    results.mkdir(parents=True, exist_ok=True)
    (results / "trace_view.json").write_text('[{"name": "MatMul"' if BEHAVIOUR == "cut" else '[{"name": "MatMul"}]')
    if simplify:
        shutil.rmtree(recording / "FRAMEWORK")


def _profiler(path):
    recording = Path(path) / "profiler"
    return recording, recording / "rank-0_1756224747_ascend_ms" / "ASCEND_PROFILER_OUTPUT"


class Profiler:
    """mindspore.Profiler of 2.2 (analyse) and of 2.4 (offline_analyse)."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def analyse(self, offline_path=None, pretty=False):
        _told(offline_path=offline_path, pretty=pretty, **self.kwargs)
        recording, _ = _profiler(offline_path)
        (recording / "ascend_timeline_display_0.json").write_text('[{"name": "MatMul"}]')

    @classmethod
    def offline_analyse(cls, path, pretty=False, step_list=None, data_simplification=True):
        _told(path=path, pretty=pretty, step_list=step_list, data_simplification=data_simplification)
        recording, results = _profiler(path)
        there = [step for step in (1, 2, 3) if step in (step_list or (1, 2, 3))]
        rows = ["step_num,start_point", *(f"{step},1" for step in there), "-,1"]
        (recording / "step_trace_raw_0_detail_time.csv").write_text("\n".join(rows) + "\n")
        _work(recording, results, simplify=data_simplification)


def get_context(name):
    """mindspore.get_context of a MindSpore built for Ascend."""
    assert name == "device_target"
    return "Ascend"


def since_2_5(profiler_path, max_process_number=1, pretty=False, step_list=None, data_simplification=True):
    """mindspore.profiler.profiler.analyse."""
    _told(path=profiler_path, jobs=max_process_number, step_list=step_list, data_simplification=data_simplification)
    recording = Path(profiler_path)
    shutil.rmtree(recording / "ASCEND_PROFILER_OUTPUT", ignore_errors=True)
    _work(recording, recording / "ASCEND_PROFILER_OUTPUT", simplify=False)


def of_torch_npu(profiler_path, max_process_number=1, export_type=None):
    """torch_npu.profiler.profiler.analyse; versions before 2.5 deleted FRAMEWORK/."""
    _told(path=profiler_path, jobs=max_process_number, export_type=export_type)
    recording = Path(profiler_path)
    _work(recording, recording / "ASCEND_PROFILER_OUTPUT", simplify=BEHAVIOUR == "simplifies")
    print("[2026-01-01 00:00:00] [INFO] [7] profiler.py: done", file=sys.stderr)
