"""The best plan for whole layers on large meshes, each problem in a process of its own.

Llama 3 70B (batch 8, 8,192 tokens) on 8 to 4,096 PEs, a mixture of 64 experts on 64, GPT-3 175B (batch 64, 2,048
tokens) on 8 x 64 x 8, one layer and 96; values of 16 bits, PEs as an A100 with 80 GiB, links of 300 GB/s along the last
axis of a mesh, 25 GB/s along the one before, 12.5 GB/s along others. Wall seconds and processor
seconds of one plan with its alternatives left out, memory of the process at its peak. Limit: 96 layers at most twice as
long as one. One layer fits into the memory anyway; the best plan of 96 does not, and a second search within the memory
follows. `gpt3-96-any` has no limit on memory, as one layer.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from einmap import load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.einsum.workload import Workload

LLAMA_70B = {
    "D_MODEL": 8192, "HEADS": 64, "KV_HEADS": 8, "D_FF": 28672, "BATCH": 8, "N_TOKENS": 8192, "BITS": 16,
}  # fmt: skip
PROBLEMS = {
    "llama": ("8", "8x8", "8x64", "64x64", "8x8x8"),
    "experts": ("64", "8x8"),
    "gpt3": ("8x64x8",),
    "gpt3-96-any": ("8x64x8",),
    "gpt3-96": ("8x64x8",),
}
LIMIT = 2.0


def main() -> None:
    """Plan everything, or one problem in this process."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("one", nargs="*", metavar="NAME MESH", help="one problem, such as llama 8x64")
    asked = parser.parse_args().one
    if asked:
        print(planned(asked[0], asked[1]))
        return
    print("| problem | mesh | cost, s | processor s | MiB |\n|---|---|---|---|---|")
    seconds: dict[str, float] = {}
    for name, meshes in PROBLEMS.items():
        for mesh in meshes:
            command = [sys.executable, __file__, name, mesh]
            line = subprocess.run(command, capture_output=True, text=True, check=True).stdout.rstrip()
            print(line, flush=True)
            seconds[name] = float(line.split("|")[4])
    free, within = (seconds[name] / seconds["gpt3"] for name in ("gpt3-96-any", "gpt3-96"))
    print(
        f"\n96 layers take {free:.2f} times the processor time of one (limit {LIMIT:g}), within the memory {within:.2f}"
    )
    sys.exit(free > LIMIT)


def planned(name: str, shape: str) -> str:
    """A row of the table."""
    sizes = tuple(int(size) for size in shape.split("x"))
    mesh = Mesh(tuple(zip("abcd", sizes, strict=False)))
    memory = np.inf if name.endswith("-any") else None
    request = PlanRequest(mesh, cluster(mesh.names), memory=memory)
    what = workload(name)
    used = time.process_time()
    best = best_plan(Planning(what, request)).chosen
    used = time.process_time() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert best is not None
    return f"| {name} | {shape} | {best.cost:.5g}{'' if best.proven else ' (not proven)'} | {used:.1f} | {peak:.0f} |"


def workload(name: str) -> Workload:
    """What is planned."""
    match name:
        case "llama":
            return load("llama3_8b", define=LLAMA_70B).workload
        case "experts":
            return _loaded(experts())
        case "gpt3":
            return _loaded(gpt3(1))
        case _:
            return _loaded(gpt3(96))


def _loaded(text: str) -> Workload:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "workload.yaml"
        path.write_text(text)
        return load(path).workload


def cluster(axes: Sequence[str]) -> Cluster:
    """PEs as an A100, and slower links along outer axes."""
    pe = ProcessingElement(peak=((16, 312e12), (32, 19.5e12)), memory=80 * 2**30, memory_bandwidth=2.0e12)
    rates = [12.5e9] * (len(axes) - 2) + [25e9, 300e9]
    return Cluster(
        pe, tuple((axis, Link(rate, 5e-6, "ring")) for axis, rate in zip(axes, rates[-len(axes) :], strict=True))
    )


def gpt3(count: int) -> str:
    """Layers of GPT-3 175B in a row, with weights of their own."""
    einsums: list[str] = []
    for i in range(count):
        x, y = f"X{i}", f"X{i + 1}"
        einsums += [
            f"V{i}[b, p, h, f] = {x}[b, M: p, d] * WV{i}[d, h, f]",
            f"K{i}[b, p, h, e] = {x}[b, M: p, d] * WK{i}[d, h, e]",
            f"Q{i}[b, m, h, e] = {x}[b, m, d] * WQ{i}[d, h, e]",
            f"QK{i}[b, m, p, h] = Q{i}[b, m, h, e] * K{i}[b, p, h, e]",
            f"S{i}[b, m, p, h] = exp(QK{i}[b, m, p, h])",
            f"AV{i}[b, m, h, f] = S{i}[b, m, p, h] * V{i}[b, p, h, f]",
            f"Z{i}[b, m, g] = AV{i}[b, m, h, f] * WZ{i}[h, f, g]",
            f"A{i}[b, m, s] = Z{i}[b, m, g] * WA{i}[g, s]",
            f"{y}[b, m, d] = A{i}[b, m, s] * WB{i}[s, d]",
        ]
    sizes = "B: 64, M: 2048, P: 2048, H: 96, E: 128, F: 128, D: 12288, G: 12288, S: 49152"
    return _spec(sizes, einsums)


def experts() -> str:
    """The feed-forward part of a layer with 64 experts, each with room for 1,024 of 65,536 tokens; where each token
    goes, and with which weight, is given.
    """
    sizes = "T: 65536, X: 64, C: 1024, D: 4096, F: 14336"
    return _spec(
        sizes,
        [
            "XD[x, c, d] = GO[t, x, c] * I[t, d]",
            "H[x, c, f] = XD[x, c, d] * WU[x, d, f]",
            "A[x, c, f] = relu(H[x, c, f])",
            "Y[x, c, d] = A[x, c, f] * WD[x, f, d]",
            "O[t, d] = BACK[t, x, c] * Y[x, c, d]",
        ],
    )


def _spec(sizes: str, einsums: Sequence[str]) -> str:
    listed = "\n".join(f'  - "{text}"' for text in einsums)
    return f"workload:\n  rank_sizes: {{{sizes}}}\n  bits_per_value: {{All: 16}}\n  einsums:\n{listed}\n"


if __name__ == "__main__":
    main()
