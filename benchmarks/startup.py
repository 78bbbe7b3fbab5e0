"""What perfguard costs before it does anything: CPU milliseconds of pytest with the plugin unused, and of the command line.

Run: python benchmarks/startup.py [--rounds 15] [--only pytest] [--environment DIR] [--json FILE]

It installs perfguard, not editable, into an environment of its own (a temporary one unless named, then it is kept): pytest
rewrites the assertions of every module that a plugin's distribution lists and that is imported early, and an editable
installation lists none. First without bytecode being written, as in many containers, while no rewritten bytecode is there; then
with it. Every round runs each command once, in random order. Figures are medians with the quartiles in brackets, what a command
adds is taken round by round; the least of all rounds is what other work on the machine disturbs least. A busy machine still
hides a millisecond in two hundred: so the import of each plugin is also timed by itself, as pytest does it (assertions
rewritten, no bytecode kept), again and again in one process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider")
OURS, THEIRS = ("-p", "no:perfguard"), ("-p", "no:benchmark")
TITLES = {False: "bytecode cached", True: "PYTHONDONTWRITEBYTECODE=1"}
#: Command by name, and the command it is compared with.
COMMANDS = {
    "python -c pass": (("-c", "pass"), None),
    "python -c 'import polars'": (("-c", "import polars"), "python -c pass"),
    "pytest, neither plugin": ((*PYTEST, *OURS, *THEIRS), None),
    "pytest, perfguard": ((*PYTEST, *THEIRS), "pytest, neither plugin"),
    "pytest, pytest-benchmark": ((*PYTEST, *OURS), "pytest, neither plugin"),
    "perfguard --help": (("-m", "perfguard", "--help"), "python -c pass"),
    "perfguard check --help": (("-m", "perfguard", "check", "--help"), "python -c pass"),
    "perfguard check, 30 kB": (("-m", "perfguard", "check", "small"), "python -c 'import polars'"),
}
#: Imported as pytest imports them for `entry points`: everything of the distribution anew, through the hook that rewrites.
PLUGINS = {
    "perfguard": ("perfguard.plugin", "perfguard.plugin.collision"),
    "pytest-benchmark": ("pytest_benchmark.plugin",),
}
_IMPORT = """
import importlib, json, sys, time
sys.dont_write_bytecode = True
from _pytest.assertion import install_importhook
from _pytest.config import get_config
modules, times = sys.argv[1:], []
top = modules[0].partition(".")[0]
hook = install_importhook(get_config())
hook.mark_rewrite(top)
for _ in range(40):
    for name in [name for name in sys.modules if name.partition(".")[0] == top]:
        del sys.modules[name]
    hook._rewritten_names.clear()
    began = time.process_time()
    for name in modules:
        importlib.import_module(name)
    times.append(1000 * (time.process_time() - began))
print(json.dumps(times[1:]))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--only", default="", metavar="TEXT", help="the commands whose names begin with it")
    parser.add_argument("--environment", type=Path, help="keep the environment here (default: a temporary one)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every figure of every round")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="perfguard-startup-") as scratch:
        directory = asked.environment.resolve() if asked.environment else Path(scratch) / "environment"
        python = installed(directory)
        work = Path(scratch) / "work"
        work.mkdir()
        (work / "test_one.py").write_text("def test_one():\n    assert True\n", encoding="utf-8")
        small_recording(work / "small")
        found = {
            title: measured(python, work, asked.only, rounds=asked.rounds, writes=not unwritten)
            for unwritten, title in sorted(TITLES.items(), reverse=True)
        }
        found["import"] = imported(python, work)
    if asked.json is not None:
        asked.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(found))


def installed(directory: Path) -> Path:
    """Install perfguard as it lies here into an environment of its own, and forget bytecode that pytest has rewritten."""
    python = directory / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*command, str(ROOT)], check=True)
    subprocess.run([*command, "--force-reinstall", "--no-deps", str(ROOT)], check=True)
    for rewritten in directory.rglob("*-pytest-*.pyc"):
        rewritten.unlink()
    return python


def small_recording(target: Path) -> None:
    """Write a directory of about 30 kB: two ranks of torch."""
    from perfguard.testing import generate

    generate("pt-torch", seed=1, ranks=2, steps=1, operators=8).write(target)


def measured(python: Path, work: Path, only: str, *, rounds: int, writes: bool) -> dict[str, list[float]]:
    """Run every command so many times, and return the CPU milliseconds of each by round."""
    wanted = {name: command for name, (command, _) in COMMANDS.items() if name.startswith(only)}
    environment = clean_environment()
    if not writes:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    for command in wanted.values():
        cpu_ms([str(python), *command], work, environment)
    samples: dict[str, list[float]] = {name: [] for name in wanted}
    for _ in range(rounds):
        for name in random.sample(list(wanted), len(wanted)):
            samples[name].append(cpu_ms([str(python), *wanted[name]], work, environment))
    return samples


def clean_environment() -> dict[str, str]:
    """Return the environment without what leads to another perfguard than the installed one."""
    unset = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "PYTEST_ADDOPTS")
    return {name: value for name, value in os.environ.items() if name not in unset}


def cpu_ms(command: list[str], work: Path, environment: dict[str, str]) -> float:
    """Return the CPU time of one process; raises `CalledProcessError` where it fails."""
    process = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return 1000 * (usage.ru_utime + usage.ru_stime)


def imported(python: Path, work: Path) -> dict[str, list[float]]:
    """Return the CPU milliseconds of importing each plugin as pytest does, without what it needs of other distributions."""
    samples = {}
    for name, modules in PLUGINS.items():
        for rewritten in python.parents[1].rglob("*-pytest-*.pyc"):
            rewritten.unlink()
        command = [str(python), "-c", _IMPORT, *modules]
        done = subprocess.run(command, cwd=work, env=clean_environment(), check=True, capture_output=True, text=True)
        samples[name] = json.loads(done.stdout)
    return samples


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Return a table for each way of keeping bytecode."""
    from tabulate import tabulate

    lines = []
    plugins = [
        [name, f"{statistics.median(times):.1f} ({quartiles(times, '.1f')})", f"{min(times):.1f}"]
        for name, times in found["import"].items()
    ]
    for title, samples in found.items():
        if title == "import":
            continue
        rows = []
        for name, mine in samples.items():
            beside = COMMANDS[name][1]
            rows.append([name, f"{statistics.median(mine):.0f} ({quartiles(mine)})", f"{min(mine):.0f}", "", "", ""])
            if beside in samples:
                added = [one - other for one, other in zip(mine, samples[beside], strict=True)]
                middle = f"{statistics.median(added):+.1f} ({quartiles(added, '+.1f')})"
                rows[-1][3:] = [middle, f"{min(mine) - min(samples[beside]):+.1f}", beside]
        headers = (title, "CPU ms", "least", "more", "more, least", "than")
        lines += [tabulate(rows, headers=headers, disable_numparse=True), ""]
    headers = ("import of the plugin, rewritten", "CPU ms", "least")
    return "\n".join([*lines, tabulate(plugins, headers=headers, disable_numparse=True)])


def quartiles(values: list[float], form: str = ".0f") -> str:
    """Return the first and the third quartile."""
    low, _, high = statistics.quantiles(values, n=4)
    return f"{low:{form}} to {high:{form}}"


if __name__ == "__main__":
    main()
