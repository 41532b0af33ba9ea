"""What the benchmarks against AccelForge 1.0.467 have in common: one process for each run, a table, and its limits.

Both get the same files. For each case: both optima, and our metric must be no worse than the peer's (the mapping that
was found is evaluated anew, semantics `accelforge`); wall time of the mapping call with compiled kernels on disk, wall
time and CPU time of the whole process, and peak memory. Medians of three processes, ours and the peer's in turn, two
workers each. The peer runs once where it needs more than a minute, and is ended after five.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import einmap

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SPECS = HERE.parent / "specs"
PEER = "accelforge-1.0.467"
PEER_PYTHON = ROOT / ".venv-peer" / "bin" / "python"
REPEATS = 3
ONCE = 60.0
"""Seconds from which one run of the peer must do."""
GIVE_UP = 300.0
WORKERS = 2
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Case:
    """One problem. `arch`, `workload`: names of files in specs/; `label`: the architecture in the table; `options`: of
    both mappers; `most`: seconds that our mapping call may take at most.
    """

    name: str
    label: str
    arch: str
    workload: str
    define: dict[str, Any] = field(default_factory=dict)
    metric: str = "energy_delay_product"
    options: dict[str, Any] = field(default_factory=dict)
    most: float | None = None

    @property
    def files(self) -> list[str]:
        return [str(SPECS / f"{name}.yaml") for name in (self.arch, self.workload)]


@dataclass(frozen=True)
class Limits:
    """How many times as fast as the peer: mapping calls and whole processes, geometric means, and each mapping call for
    which the peer needs more than two seconds. `peak`: MB.
    """

    call: float = 20.0
    each_call: float = 5.0
    whole: float = 4.0
    peak: float = 300.0


@dataclass
class Run:
    """One process: seconds of the mapping call, of the process, of its CPUs; peak MB; the metric found."""

    call: float
    whole: float
    cpu: float
    peak: float
    value: float


def median(runs: Sequence[Run]) -> Run:
    """Field by field."""
    return Run(*(statistics.median(getattr(run, f.name) for run in runs) for f in fields(Run)))


def process(command: Sequence[str], env: dict[str, str] | None = None) -> tuple[str, float, float, float]:
    """Output, wall time, CPU time and peak memory (MB, of the largest process) of a child and its children."""
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as errors:
        start = time.perf_counter()
        given = {**os.environ, **(env or {})}
        child = subprocess.Popen(command, stdout=out, stderr=errors, env=given, start_new_session=True)
        while True:
            pid, status, used = os.wait4(child.pid, os.WNOHANG)
            wall = time.perf_counter() - start
            if pid:
                child.returncode = os.waitstatus_to_exitcode(status)
                break
            if wall > GIVE_UP:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                raise TimeoutError
            time.sleep(0.002)
        out.seek(0)
        errors.seek(0)
        if child.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{errors.read()}")
        return out.read(), wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def ours(case: Case, env: dict[str, str] | None = None) -> Run:
    """`einmap map`; the metric is that of the mapping that it wrote, evaluated here."""
    with tempfile.TemporaryDirectory() as scratch:
        best = str(Path(scratch) / "best.yaml")
        define = [word for name, value in case.define.items() for word in ("-D", f"{name}={value}")]
        options = [word for name, value in case.options.items() for word in ("--option", f"{name}={value}")]
        asked = [*options, "--metrics", case.metric, "--semantics", "accelforge", "--workers", str(WORKERS)]
        entry = "from einmap.cli.main import main; main()"
        command = [sys.executable, "-c", entry, "map", *case.files, *define, *asked, "--json", "-o", best]
        text, wall, cpu, peak = process(command, env)
        found = json.loads(text)
        assert found["optimal"], f"{case.name}: not proven optimal"
        cost = einmap.evaluate(einmap.load(*case.files, best, define=case.define), semantics="accelforge")
        value = {"energy": cost.energy, "latency": cost.latency, "energy_delay_product": cost.edp}[case.metric]
        return Run(found["stats"]["seconds"], wall, cpu, peak, value)


def peers(case: Case, python: Path) -> Run:
    """The same case with AccelForge; infinite cost where it found nothing in time."""
    given = [json.dumps(case.define), json.dumps(case.options)]
    command = [str(python), str(HERE / "map_one.py"), case.metric, str(WORKERS), *given, *case.files]
    try:
        text, wall, cpu, peak = process(command)
    except TimeoutError:
        return Run(GIVE_UP, GIVE_UP, GIVE_UP, 0.0, float("inf"))
    found = json.loads(text.splitlines()[-1])
    return Run(found["seconds"], wall, cpu, peak, found["value"])


def measure(case: Case, repeats: int, python: Path | None) -> tuple[list[Run], list[Run]]:
    """Both in turn; only ours without the interpreter of the peer."""
    own: list[Run] = []
    peer: list[Run] = []
    for _ in range(repeats):
        own.append(ours(case))
        if python is not None and (not peer or peer[0].whole <= ONCE):
            peer.append(peers(case, python))
    return own, peer


def load_averages() -> str:
    return "load averages " + ", ".join(f"{x:.1f}" for x in os.getloadavg())


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    cpu = names[0] if names else platform.processor() or "unknown processor"
    return f"{os.cpu_count()} x {cpu}, Python {platform.python_version()}, {load_averages()}"


def cold(case: Case) -> Run:
    """Nothing compiled on disk."""
    with tempfile.TemporaryDirectory() as scratch:
        return ours(case, {"NUMBA_CACHE_DIR": scratch})


@dataclass
class Table:
    """Rows as they are measured, and what follows from them."""

    limits: Limits
    calls: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    peak: float = 0.0

    def header(self) -> None:
        print(f"{'':46} {'mapping call, s':^21} {'whole process, s':^22} {'CPU':>5} {'peak, MB':^11} {'optimum':^21}")
        pair = f"{'ours':>7} {'peer':>7}"
        print(f"{'case':27} {'levels, metric':18} {pair} {'x':>5} {pair} {'x':>6} {'x':>5} "
              f"{'ours':>5} {'peer':>5} {'ours':>10} {'peer':>10}")  # fmt: skip

    def row(self, case: Case, own: Run, peer: Run | None) -> None:
        self.peak = max(self.peak, own.peak)
        if case.most is not None and own.call > case.most:
            self.failures.append(f"{case.name}: the mapping call takes {own.call:.2f} s, limit {case.most:g} s")
        metric = case.metric.replace("energy_delay_product", "EDP")
        start = f"{case.name:27} {f'{case.label} {metric}':18}"
        if peer is None:
            print(f"{start} {own.call:7.3f} {'':13} {own.whole:7.2f} {'':20} {own.peak:5.0f} {'':5} {own.value:10.4e}"
                  "   no figures of the peer", flush=True)  # fmt: skip
            return
        call, whole, cpu = peer.call / own.call, peer.whole / own.whole, peer.cpu / own.cpu
        self.calls.append(call)
        self.wholes.append(whole)
        self.cpus.append(cpu)
        print(f"{start} {own.call:7.3f} {peer.call:7.2f} {call:5.0f} {own.whole:7.2f} {peer.whole:7.2f} {whole:6.1f} "
              f"{cpu:5.1f} {own.peak:5.0f} {peer.peak:5.0f} {own.value:10.4e} {peer.value:10.4e}",
              flush=True)  # fmt: skip
        if own.value > peer.value * (1 + TOLERANCE):
            self.failures.append(f"{case.name}: {case.metric} {own.value!r} is worse than the peer's {peer.value!r}")
        if peer.call > 2 and call < self.limits.each_call:
            self.failures.append(f"{case.name}: the mapping call is only {call:.1f} times as fast")

    def summary(self) -> None:
        limits = self.limits
        if self.calls:
            call, whole, cpu = (statistics.geometric_mean(x) for x in (self.calls, self.wholes, self.cpus))
            print(f"mapping call: geometric mean {call:.0f}x, least {min(self.calls):.0f}x "
                  f"(limits {limits.call:g}x, {limits.each_call:g}x)")  # fmt: skip
            print(
                f"whole process: geometric mean {whole:.1f}x, least {min(self.wholes):.1f}x (limit {limits.whole:g}x)"
            )
            print(f"CPU time of the whole process: geometric mean {cpu:.1f}x, least {min(self.cpus):.1f}x")
            if call < limits.call:
                self.failures.append(f"geometric mean of the mapping calls below {limits.call:g}x")
            if whole < limits.whole:
                self.failures.append(f"geometric mean of the whole processes below {limits.whole:g}x")
        print(f"peak memory at most {self.peak:.0f} MB (limit {limits.peak:g})")
        if self.peak > limits.peak:
            self.failures.append(f"peak memory above {limits.peak:g} MB")
        for failure in self.failures:
            print(f"FAILED {failure}")


def chosen(doc: str | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure-peer", action="store_true", help="run the peer, and keep its figures")
    parser.add_argument("--missing", action="store_true", help="only cases without figures of the peer")
    parser.add_argument(
        "--case", action="append", default=[], metavar="TEXT", help="only cases named so, or so in part"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="processes of each case")
    parser.add_argument("--peer", type=Path, default=PEER_PYTHON, metavar="PYTHON", help="the peer's interpreter")
    return parser.parse_args()


def compare(cases: Sequence[Case], known_in: Path, limits: Limits, doc: str | None) -> None:
    """Measure the cases that the command line names, print the table, exit with 1 if a limit is missed.

    `known_in`: the file with the peer's figures.
    """
    args = chosen(doc)
    known: dict[str, Any] = json.loads(known_in.read_text()) if known_in.exists() else {}
    asked = [case for case in cases if not args.case or any(text in case.name for text in args.case)]
    if args.missing:
        asked = [case for case in asked if case.name not in known]
    print(f"# {machine()}")
    ours(cases[0])  # from here on the kernels are on disk
    table = Table(limits)
    table.header()
    for case in asked:
        own, peer = measure(case, args.repeats, args.peer if args.measure_peer else None)
        if peer:
            known[case.name] = {"machine": machine(), "runs": [vars(run) for run in peer]}
            known_in.write_text(json.dumps(known, indent=1) + "\n")
        peer = [Run(**run) for run in known.get(case.name, {}).get("runs", [])]
        table.row(case, median(own), median(peer) if peer else None)
    table.summary()
    start, again = cold(cases[0]).whole, ours(cases[0]).whole
    print(f"{cases[0].name}, whole process: {start:.1f} s with nothing compiled on disk, else {again:.1f} s")
    print(f"# {load_averages()}")
    if not args.measure_peer:
        print(f"# {PEER} was measured before: {known_in.relative_to(ROOT)} says on which machine and how busy it was")
    raise SystemExit(bool(table.failures))
