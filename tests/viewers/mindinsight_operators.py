"""MindInsight's parser classes: `mindinsight_operators.py DIRECTORY RANK`; prints what they read of a CPU's files, as JSON.

Runs where mindinsight is installed; imports nothing of perfguard.
"""

import json
import sys

from mindinsight.profiler.analyser.cpu_analyser import CpuOpInfoAnalyser, CpuOpTypeAnalyser

directory, rank = sys.argv[1:]
types, details = CpuOpTypeAnalyser(directory, rank), CpuOpInfoAnalyser(directory, rank)
print(
    "RESULT "
    + json.dumps(
        {
            "types": [dict(zip(types.col_names, row)) for row in types.data],  # noqa: B905 (Python 3.9)
            "details": [dict(zip(details.col_names, row)) for row in details.data],  # noqa: B905
            # What the page of the operators asks for: the slowest first.
            "page": types.query({"sort_condition": {"name": "total_compute_time", "type": "descending"}}),
        }
    )
)
