"""The mapper against AccelForge 1.0.467: 16 single Einsums, the same files for both; a table and its limits.

For each case: both optima, and our metric must be no worse than the peer's (the mapping that was found is evaluated
anew, semantics `accelforge`); wall time of the mapping call with compiled kernels on disk, wall time and CPU time of
the whole process, and peak memory. Medians of three processes, ours and the peer's in turn, two workers each (einmap
uses one process whatever it is told). The peer runs once where it needs more than a minute, and is ended after five.

The peer has an environment of its own, and wants Graphviz's `dot` on the PATH:

    python3.12 -m venv .venv-peer && .venv-peer/bin/pip install accelforge==1.0.467
    python benchmarks/mapper_vs_peer.py --measure-peer

Without --measure-peer its figures are those of benchmarks/peer/accelforge-1.0.467.json, measured the same way; where
there are none, only ours are printed.
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
SPECS = HERE / "specs"
PEER = "accelforge-1.0.467"
KNOWN = HERE / "peer" / f"{PEER}.json"
PEER_PYTHON = HERE.parent / ".venv-peer" / "bin" / "python"
REPEATS = 3
ONCE = 60.0
"""Seconds from which one run of the peer must do."""
GIVE_UP = 300.0
WORKERS = 2
TOLERANCE = 1e-6


@dataclass(frozen=True)
class Case:
    name: str
    levels: int
    workload: str
    define: dict[str, Any]
    metric: str = "energy_delay_product"

    @property
    def files(self) -> list[str]:
        return [str(SPECS / f"arch_{self.levels}_levels.yaml"), str(SPECS / f"{self.workload}.yaml")]


def conv(C: int, M: int, PQ: int, RS: int, stride: int = 1) -> dict[str, Any]:
    return {"C": C, "M": M, "P": PQ, "Q": PQ, "R": RS, "S": RS, "STRIDE": stride}


def matmul(M: int, K: int, N: int) -> dict[str, Any]:
    return {"M": M, "K": K, "N": N}


CASES = (
    Case("matmul 64^3", 2, "matmul", matmul(64, 64, 64)),
    Case("matmul 1024^3", 3, "matmul", matmul(1024, 1024, 1024)),
    Case("matmul 2520x5040x2520", 2, "matmul", matmul(2520, 5040, 2520)),
    Case("ResNet-50 conv1", 2, "conv", conv(3, 64, 112, 7, 2)),
    Case("ResNet-50 conv2_2", 4, "conv", conv(64, 64, 56, 3)),
    Case("ResNet-50 conv3_1a", 3, "conv", conv(256, 128, 28, 1, 2), "energy"),
    Case("ResNet-50 conv4_2", 5, "conv", conv(256, 256, 14, 3)),
    Case("ResNet-50 conv5_3", 3, "conv", conv(512, 2048, 7, 1), "latency"),
    Case("GPT-3 6.7B QK", 4, "gpt3", {"EINSUM": "QK"}),
    Case("GPT-3 6.7B AV", 3, "gpt3", {"EINSUM": "AV"}),
    Case("GPT-3 6.7B V", 5, "gpt3", {"EINSUM": "V"}),
    Case("GPT-3 6.7B Z", 4, "gpt3", {"EINSUM": "Z"}, "energy"),
    Case("GPT-3 6.7B FFA", 3, "gpt3", {"EINSUM": "FFA"}, "latency"),
    Case("GPT-3 6.7B FFB", 5, "gpt3", {"EINSUM": "FFB"}),
    Case("depthwise 3x3", 4, "depthwise", {"C": 256, "P": 28, "Q": 28}),
    Case("matmul 1000x10x30", 3, "matmul", matmul(1000, 10, 30), "energy"),
)


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
        asked = ["--metrics", case.metric, "--semantics", "accelforge", "--workers", str(WORKERS)]
        entry = "from einmap.cli.main import main; main()"
        command = [sys.executable, "-c", entry, "map", *case.files, *define, *asked, "--json", "-o", best]
        text, wall, cpu, peak = process(command, env)
        found = json.loads(text)
        assert found["optimal"], f"{case.name}: not proven optimal"
        cost = einmap.evaluate(einmap.load(*case.files, best, define=case.define), semantics="accelforge")
        value = {"energy": cost.energy, "latency": cost.latency, "energy_delay_product": cost.edp}[case.metric]
        return Run(found["stats"]["seconds"], wall, cpu, peak, value)


def peers(case: Case) -> Run:
    """The same case with AccelForge; infinite cost where it found nothing in time."""
    script = str(HERE / "peer" / "map_one.py")
    command = [str(PEER_PYTHON), script, case.metric, str(WORKERS), json.dumps(case.define), *case.files]
    try:
        text, wall, cpu, peak = process(command)
    except TimeoutError:
        return Run(GIVE_UP, GIVE_UP, GIVE_UP, 0.0, float("inf"))
    found = json.loads(text.splitlines()[-1])
    return Run(found["seconds"], wall, cpu, peak, found["value"])


def measure(case: Case, repeats: int, with_peer: bool) -> tuple[list[Run], list[Run]]:
    """Both in turn."""
    own: list[Run] = []
    peer: list[Run] = []
    for _ in range(repeats):
        own.append(ours(case))
        if with_peer and (not peer or peer[0].whole <= ONCE):
            peer.append(peers(case))
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

    calls: list[float] = field(default_factory=list)
    wholes: list[float] = field(default_factory=list)
    cpus: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    peak: float = 0.0

    def header(self) -> None:
        print(f"{'':37} {'mapping call, s':^21} {'whole process, s':^22} {'CPU':>5} {'peak, MB':^11} {'optimum':^21}")
        pair = f"{'ours':>7} {'peer':>7}"
        print(f"{'case':22} {'levels, metric':14} {pair} {'x':>5} {pair} {'x':>6} {'x':>5} "
              f"{'ours':>5} {'peer':>5} {'ours':>10} {'peer':>10}")  # fmt: skip

    def row(self, case: Case, own: Run, peer: Run | None) -> None:
        self.peak = max(self.peak, own.peak)
        start = f"{case.name:22} {case.levels} {case.metric.replace('energy_delay_product', 'EDP'):12}"
        if peer is None:
            print(f"{start} {own.call:7.3f} {'':13} {own.whole:7.2f}   no figures of the peer", flush=True)
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
        if peer.call > 2 and call < 5:
            self.failures.append(f"{case.name}: the mapping call is only {call:.1f} times as fast")

    def summary(self) -> None:
        if self.calls:
            call, whole, cpu = (statistics.geometric_mean(x) for x in (self.calls, self.wholes, self.cpus))
            print(f"mapping call: geometric mean {call:.0f}x, least {min(self.calls):.0f}x (limits 20x, 5x)")
            print(f"whole process: geometric mean {whole:.1f}x, least {min(self.wholes):.1f}x (limit 4x)")
            print(f"CPU time of the whole process: geometric mean {cpu:.1f}x, least {min(self.cpus):.1f}x")
            if call < 20:
                self.failures.append("geometric mean of the mapping calls below 20x")
            if whole < 4:
                self.failures.append("geometric mean of the whole processes below 4x")
        print(f"peak memory at most {self.peak:.0f} MB (limit 300)")
        if self.peak > 300:
            self.failures.append("peak memory above 300 MB")
        for failure in self.failures:
            print(f"FAILED {failure}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure-peer", action="store_true", help="run the peer, and keep its figures")
    parser.add_argument("--missing", action="store_true", help="only cases without figures of the peer")
    parser.add_argument(
        "--case", action="append", default=[], metavar="TEXT", help="only cases named so, or so in part"
    )
    parser.add_argument("--repeats", type=int, default=REPEATS, metavar="N", help="processes of each case")
    args = parser.parse_args()
    known: dict[str, Any] = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    cases = [case for case in CASES if not args.case or any(text in case.name for text in args.case)]
    if args.missing:
        cases = [case for case in cases if case.name not in known]
    print(f"# {machine()}")
    ours(CASES[0])  # from here on the kernels are on disk
    table = Table()
    table.header()
    for case in cases:
        own, peer = measure(case, args.repeats, args.measure_peer)
        if peer:
            known[case.name] = {"machine": machine(), "runs": [vars(run) for run in peer]}
            KNOWN.write_text(json.dumps(known, indent=1) + "\n")
        peer = [Run(**run) for run in known.get(case.name, {}).get("runs", [])]
        table.row(case, median(own), median(peer) if peer else None)
    table.summary()
    start, again = cold(CASES[0]).whole, ours(CASES[0]).whole
    print(f"{CASES[0].name}, whole process: {start:.1f} s with nothing compiled on disk, else {again:.1f} s")
    print(f"# {load_averages()}")
    if not args.measure_peer:
        print(
            f"# {PEER} was measured before: {KNOWN.relative_to(HERE.parent)} says on which machine and how busy it was"
        )
    raise SystemExit(bool(table.failures))


if __name__ == "__main__":
    main()
