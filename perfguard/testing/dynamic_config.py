"""profiler_config.json: the settings of dynamic profiling in MindSpore and torch_npu."""

from __future__ import annotations

from collections.abc import Mapping

from perfguard.testing.formats import Files, json_bytes
from perfguard.testing.truth import Truth


def config_file(truth: Truth, on: Mapping[str, bool], variant: str) -> Files:
    """Write the settings; `variant` is "ms-2.4", "torch_npu", or empty for MindSpore 2.5 and later."""
    steps = truth.cycles[0][0].steps
    write = {"ms-2.4": _mindspore_2_4, "torch_npu": _torch_npu}.get(variant, _mindspore)
    document = write(steps[0].number, steps[-1].number, {"profile_memory": on["memory"], "with_stack": on["stack"]})
    return {"profiler_config.json": json_bytes(document, indent=4)}


def _mindspore(first: int, last: int, options: dict[str, bool]) -> dict[str, object]:
    return {
        "start_step": first,
        "stop_step": last,
        "aic_metrics": "AiCoreNone",
        "profiler_level": "Level0",
        "analyse_mode": 0,
        "activities": ["CPU"],
        **options,
        "data_simplification": False,
        "analyse": True,
    }


def _mindspore_2_4(first: int, last: int, options: dict[str, bool]) -> dict[str, object]:
    return {
        "start_step": first,
        "stop_step": last,
        "aicore_metrics": -1,
        "profiler_level": -1,
        "profile_framework": 1,
        "analyse_mode": 0,
        "profile_communication": False,
        "parallel_strategy": False,
        "with_stack": options["with_stack"],
        "data_simplification": True,
        "profile_memory": options["profile_memory"],
    }


def _torch_npu(first: int, last: int, options: dict[str, bool]) -> dict[str, object]:
    """Return the settings of torch_npu, which has the number of steps where MindSpore has the last step."""
    return {
        "activities": ["CPU", "NPU"],
        "prof_dir": "./",
        "analyse": False,
        "record_shapes": False,
        **options,
        "with_flops": False,
        "with_modules": False,
        "active": last - first + 1,
        "warmup": 0,
        "start_step": first,
        "is_rank": False,
        "rank_list": [],
        "experimental_config": {
            "profiler_level": "Level0",
            "aic_metrics": "AiCoreNone",
            "l2_cache": False,
            "op_attr": False,
            "gc_detect_threshold": None,
            "data_simplification": True,
            "record_op_args": False,
            "export_type": ["text"],
            "mstx": False,
            "mstx_domain_include": [],
            "mstx_domain_exclude": [],
            "host_sys": [],
            "sys_io": False,
            "sys_interconnection": False,
        },
    }
