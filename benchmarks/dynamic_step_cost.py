"""What a step() of the dynamic profile costs a training while nobody edits profiler_config.json, in microseconds.

Run: python benchmarks/dynamic_step_cost.py [STEPS]. The least, the median and the 99th percentile over that many steps
(100 000), with a file that was last edited long ago, and with one that was edited within the last two seconds, which is read
again every time; and of a profiler that is not enabled.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from perfguard.integrations.tools_config import tools_config
from perfguard.integrations.tools_profiler import tools_profiler
from perfguard.integrations.torch_dynamic import CONFIG_FILE, default_config


def costs_us(step: Callable[[], None], steps: int) -> list[float]:
    found = []
    for _ in range(steps):
        began = time.perf_counter_ns()
        step()
        found.append((time.perf_counter_ns() - began) / 1000)
    return found


def main() -> None:
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory, CONFIG_FILE)
        for title, age_s, enable in (
            ("not edited", 3600, True),
            ("edited a moment ago", 0, True),
            ("not enabled", 0, False),
        ):
            file.write_text(json.dumps(default_config(), indent=4))
            os.utime(file, (time.time() - age_s,) * 2)
            profile = {"enable": enable, "profile_type": "dynamic", "dynamic_param": {"config_path": directory}}
            prof = tools_profiler(tools_config({"profile": profile}, source="tools.json"))
            prof.start()
            # The file is fresh for two seconds only.
            found = costs_us(prof.step, steps if age_s or not enable else min(steps, 10_000))
            prof.stop()
            tail = statistics.quantiles(found, n=100)[-1]
            print(
                f"{title:20} least {min(found):6.1f} us  median {statistics.median(found):6.1f} us  99 % {tail:6.1f} us"
            )


if __name__ == "__main__":
    main()
