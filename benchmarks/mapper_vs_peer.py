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

from typing import Any

from peer.compare import HERE, PEER, Case, Limits, compare


def on(levels: int, name: str, workload: str, define: dict[str, Any], metric: str = "energy_delay_product") -> Case:
    return Case(name, str(levels), f"arch_{levels}_levels", workload, define, metric)


def conv(C: int, M: int, PQ: int, RS: int, stride: int = 1) -> dict[str, Any]:
    return {"C": C, "M": M, "P": PQ, "Q": PQ, "R": RS, "S": RS, "STRIDE": stride}


def matmul(M: int, K: int, N: int) -> dict[str, Any]:
    return {"M": M, "K": K, "N": N}


CASES = (
    on(2, "matmul 64^3", "matmul", matmul(64, 64, 64)),
    on(3, "matmul 1024^3", "matmul", matmul(1024, 1024, 1024)),
    on(2, "matmul 2520x5040x2520", "matmul", matmul(2520, 5040, 2520)),
    on(2, "ResNet-50 conv1", "conv", conv(3, 64, 112, 7, 2)),
    on(4, "ResNet-50 conv2_2", "conv", conv(64, 64, 56, 3)),
    on(3, "ResNet-50 conv3_1a", "conv", conv(256, 128, 28, 1, 2), "energy"),
    on(5, "ResNet-50 conv4_2", "conv", conv(256, 256, 14, 3)),
    on(3, "ResNet-50 conv5_3", "conv", conv(512, 2048, 7, 1), "latency"),
    on(4, "GPT-3 6.7B QK", "gpt3", {"EINSUM": "QK"}),
    on(3, "GPT-3 6.7B AV", "gpt3", {"EINSUM": "AV"}),
    on(5, "GPT-3 6.7B V", "gpt3", {"EINSUM": "V"}),
    on(4, "GPT-3 6.7B Z", "gpt3", {"EINSUM": "Z"}, "energy"),
    on(3, "GPT-3 6.7B FFA", "gpt3", {"EINSUM": "FFA"}, "latency"),
    on(5, "GPT-3 6.7B FFB", "gpt3", {"EINSUM": "FFB"}),
    on(4, "depthwise 3x3", "depthwise", {"C": 256, "P": 28, "Q": 28}),
    on(3, "matmul 1000x10x30", "matmul", matmul(1000, 10, 30), "energy"),
)

if __name__ == "__main__":
    compare(CASES, HERE / f"{PEER}.json", Limits(), __doc__)
