"""What users wait for first: processor time and modules of fresh processes, above a bare interpreter; medians of nine.

Limits: `import einmap` 200 ms above the bare interpreter, `einmap --help` 350 ms in all.
"""

import os
import statistics
import subprocess
import sys

CLI = "import sys; from einmap.cli.main import main; main()"
COUNT = "; import sys; print(len(sys.modules), sum(m.partition('.')[0] == 'einmap' for m in sys.modules))"
SIMPLE = ("simple", "matmul", "simple_matmul")
CASES = {
    "bare interpreter": ("pass", (), None),
    "import einmap": ("import einmap", (), 200),
    "einmap.load, einmap.evaluate": ("import einmap; einmap.load; einmap.evaluate", (), None),
    "einmap.map_workload": ("import einmap; einmap.map_workload", (), None),
    "einmap --version": (CLI, ("--version",), None),
    "einmap --help": (CLI, ("--help",), 350),
    "einmap evaluate --help": (CLI, ("evaluate", "--help"), None),
    "einmap evaluate, a small mapping": (CLI, ("evaluate", *SIMPLE), None),
}


def milliseconds(code: str, words: tuple[str, ...], runs: int = 9) -> float:
    """Processor time of a fresh interpreter, median."""
    times = []
    for _ in range(runs):
        before = os.times()
        subprocess.run([sys.executable, "-c", code, *words], check=True, capture_output=True)
        after = os.times()
        times.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return statistics.median(times) * 1e3


def modules(code: str) -> str:
    """How many modules the code loads, and how many of them are einmap's."""
    done = subprocess.run([sys.executable, "-c", code + COUNT], check=True, capture_output=True, text=True)
    return "{} modules, {} of einmap".format(*done.stdout.split())


bare = milliseconds(*CASES["bare interpreter"][:2])
for name, (code, words, limit) in CASES.items():
    took = milliseconds(code, words)
    if name == "import einmap":
        took -= bare
    shown = "" if limit is None else f" (limit {limit})"
    print(f"{name:32} {took:5.0f} ms{shown}  {'' if words else modules(code)}".rstrip())
