"""What a sweep costs beside its points: overhead of each, two workers, and what a large store takes.

Processor time where seconds depend on the machine's load. Limits: 5 ms for each point beyond binding and mapping it
alone; two workers 1.6 times as fast as one on points of at least 100 ms; 500 MB and a second for `status` of 100,000
points. `--points N` takes fewer or more for the last one.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from einmap import evaluate, load, sweep
from einmap.mapper.mapper import best_mappings
from einmap.sweep import run as running
from einmap.sweep.actions.perform import Task, outcome_of
from einmap.sweep.outcome import Outcome

MAPPED = 1000
SIDE = 16
HEAVY = {
    "name": "heavy",
    "specs": ["tpu_v4i", "matmul_chain"],
    "define": {"N_EINSUMS": 3, "M": 512, "N": 768},
    "axes": [{"name": "size", "path": "arch.GlobalBuffer.size", "range": {"least": 2**30, "most": 2**30 + 29}}],
}
PAUSE = 0.1
CHEAP = """
import sys
from pathlib import Path
from einmap import sweep
count = int(sys.argv[1])
# the second axis sets what the first one did: a hundred specifications differ, and points are many
axes = [
    {"name": "many", "path": "arch.GlobalBuffer.size", "range": {"least": 1, "most": count // 100}},
    {"name": "size", "path": "arch.GlobalBuffer.size", "range": {"least": 65536, "most": 65635}},
]
swept = {"specs": ["simple", "matmul", "simple_matmul"], "define": {"M": 16, "K": 8, "N": 16}, "action": "evaluate"}
points = sweep({**swept, "axes": axes, "name": "cheap"}, workers=0, store=sys.argv[2])
finished = sum(point.status == "done" for point in points)
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(finished, int(peak.split()[1]) / 1024)
"""


def overhead(folder: Path) -> None:
    """Processor time of a sweep in this process against that of its points by themselves, mapped and evaluated."""
    axes = [{"name": "size", "path": "arch.GlobalBuffer.size", "range": {"least": 65536, "most": 65535 + MAPPED}}]
    print(f"{MAPPED:,} points of a {SIDE} x {SIDE} x {SIDE} product, processor time of each:")
    for action, files, function in (
        ("map", ["simple", "matmul"], lambda spec: best_mappings(spec, metrics="energy", workers=1)),
        ("evaluate", ["simple", "matmul", "simple_matmul"], evaluate),
    ):
        define = {"M": SIDE, "K": SIDE, "N": SIDE}
        base = load(*files, define=define)
        swept = {"specs": files, "define": define, "axes": axes, "action": action, "metric": "energy"}
        function(base)  # loads the kernels
        start = time.process_time()
        for _ in range(MAPPED):
            function(base)
        bound = (time.process_time() - start) / MAPPED
        start = time.process_time()
        for size in range(65536, 65536 + MAPPED):
            function(base.set("arch.nodes.GlobalBuffer.size", size))
        alone = (time.process_time() - start) / MAPPED
        start = time.process_time()
        finished = sum(1 for _ in sweep(swept, workers=0, store=folder / f"{action}.sqlite"))
        whole = (time.process_time() - start) / finished
        print(f"  {action}: bound before {bound * 1e3:.2f} ms, alone {alone * 1e3:.2f} ms, ", end="")
        print(f"in the sweep {whole * 1e3:.2f} ms; above alone: {(whole - alone) * 1e3:.2f} ms (limit 5)")


def paused(task: Task) -> Outcome:
    """A point that takes 100 ms and no processor."""
    assert task.asked.action == "map"
    time.sleep(PAUSE)
    return Outcome("done", energy=1.0, latency=1.0, leak_energy=0.0, area=0.0)


def two_workers() -> None:
    """Points a second of one and of two workers, from the first to the last answer, the better of two in turn."""
    print("as many points as one and two workers do in a second (limit 1.6 x):")
    for what, function, tries in (("that wait 100 ms", paused, 1), ("mapped", outcome_of, 2)):
        running.outcome_of = function  # type: ignore[attr-defined]
        rates: dict[int, list[float]] = {1: [], 2: []}
        seconds, busy = [], []
        for _ in range(tries):
            for workers, measured in rates.items():
                before, came = time.process_time(), []
                for point in sweep(HEAVY, workers=workers):
                    came.append(time.perf_counter())
                    seconds.append(point.outcomes["workload"].seconds)
                measured.append((len(came) - workers) / (came[-1] - came[workers - 1]))
                busy.append((time.process_time() - before) / len(came))
        one, two = max(rates[1]), max(rates[2])
        print(f"  {what}: {one:.2f} and {two:.2f}, {two / one:.2f} x", end="")
        print(f" (a point takes {min(seconds) * 1e3:.0f} ms and more)" if function is outcome_of else "", end="")
        print(f"; processor time of the parent {min(busy) * 1e3:.1f} ms a point")
    running.outcome_of = outcome_of  # type: ignore[attr-defined]


def many(folder: Path, count: int) -> None:
    """A store of many cheap points: memory of the process that makes it, its file, and `status`."""
    store = folder / "cheap.sqlite"
    start = time.perf_counter()
    made = subprocess.run(
        [sys.executable, "-c", CHEAP, str(count), str(store)], check=True, capture_output=True, text=True
    )
    took = time.perf_counter() - start
    finished, megabytes = made.stdout.split()
    code = "from einmap.cli.main import main; main()"
    asked = [sys.executable, "-c", code, "sweep", "status", "--store", str(store)]
    start, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(asked, check=True, capture_output=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    busy = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{int(finished):,} points in {took:.0f} s: {float(megabytes):.0f} MB in the parent (limit 500), ",
        end="",
    )
    print(f"{store.stat().st_size / 1e6:.0f} MB of store")
    print(f"  einmap sweep status: {seconds:.2f} s, {busy:.2f} s of processor time (limit 1)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--points", type=int, default=100_000)
    points = parser.parse_args().points
    with tempfile.TemporaryDirectory() as name:
        overhead(Path(name))
        two_workers()
        many(Path(name), points)
