"""Times of ski slopes of the published shapes (Orojenesis, ISCA 2024), for docs/performance.md.

    python benchmarks/ski_slopes.py [--chain X]

Every corner of each curve. `--chain`: the GPT-3 6.7B layer at batch 16 as well, with at most one fused loop and
capacities X times apart.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any

import einmap
from einmap.search.skislope import ski_slope
from einmap.spec.spec import Spec

MATMUL = ["Z[m, n] = A[m, k] * B[k, n]"]
BATCHED = ["Z[h, m, n] = A[h, m, k] * B[h, k, n]"]
GROUPED = ["Z[g, h, m, n] = A[g, h, m, k] * B[g, k, n]"]
PAIR = ["T[m, n] = A[m, k] * B[k, n]", "Z[m, l] = T[m, n] * C[n, l]"]


def workload(einsums: list[str], **sizes: int) -> Spec:
    spec: dict[str, Any] = {"rank_sizes": sizes, "bits_per_value": {"All": 1}, "einsums": einsums}
    return Spec.from_dict({"workload": spec})


def convolution(kernel: int, stride: int = 1, dilation: int = 1) -> Spec:
    """P = Q = 16, C = K = 64."""
    rows = f"{stride}*p + {dilation}*r" if kernel > 1 else f"{stride}*p"
    columns = f"{stride}*q + {dilation}*s" if kernel > 1 else f"{stride}*q"
    weights = "[k, c, r, s]" if kernel > 1 else "[k, c]"
    einsum = f"O[k, p, q] = I[c, H: {rows}, W: {columns}] * F{weights}"
    extent = 15 * stride + (kernel - 1) * dilation + 1
    sizes = {"K": 64, "C": 64, "P": 16, "Q": 16, "H": extent, "W": extent}
    return workload([einsum], **sizes, **({"R": kernel, "S": kernel} if kernel > 1 else {}))


def shapes() -> dict[str, list[Spec]]:
    """The published shapes by group."""
    return {
        "16384 x 1024 x 1024": [workload(MATMUL, M=16384, K=1024, N=1024)],
        "27 products of {2048, 4096, 8192}^3": [
            workload(MATMUL, M=m, K=k, N=n) for m, k, n in product((2048, 4096, 8192), repeat=3)
        ],
        "5 convolutions": [
            convolution(1), convolution(3), convolution(5), convolution(3, stride=2), convolution(3, dilation=2)
        ],
        "batched products, H = 1 to 32": [
            workload(BATCHED, H=2**i, M=4096, K=4096 // 2**i, N=4096) for i in range(6)
        ],
        "grouped products, G = 1 to 32": [
            workload(GROUPED, G=2**i, H=32 // 2**i, M=4096, K=128, N=4096) for i in range(6)
        ],
        "pair 32k x 4k x 16k, 32k x 16k x 4k": [workload(PAIR, M=32768, K=4096, N=16384, L=4096)],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chain", type=float, default=None)
    asked = parser.parse_args()
    ski_slope(workload(MATMUL, M=2, K=2, N=2))  # compiling is not searching
    print("| shapes | curves | corners | s, all | s, slowest | processor s | proven |")
    print("|---|---|---|---|---|---|---|")
    for name, specs in shapes().items():
        _row(name, specs)
    if asked.chain is not None:
        layer = einmap.load("gpt3_6.7b", define={"BATCH": 16})
        name = f"GPT-3 6.7B layer, batch 16, at most 1 fused loop, capacities {asked.chain:g} x apart"
        _row(name, [layer], spacing=asked.chain, max_fused_loops=1)


def _row(name: str, specs: list[Spec], **options: float) -> None:
    begin = time.process_time()
    curves = [ski_slope(spec, **options) for spec in specs]
    spent = time.process_time() - begin
    seconds = [curve.seconds for curve in curves]
    corners = sum(len(curve.corners) for curve in curves)
    proven = all(curve.proven and curve.complete for curve in curves)
    print(
        f"| {name} | {len(curves)} | {corners} | {sum(seconds):.2f} | {max(seconds):.2f} | {spent:.2f} | "
        f"{'all' if proven else 'not all'} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
