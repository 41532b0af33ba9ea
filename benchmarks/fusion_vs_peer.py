"""The fused mapper against AccelForge 1.0.467: 12 cascades, the same files for both; a table and its limits.

What is measured, and how: benchmarks/peer/compare.py. Intermediate tensors may stay inside; no limit of fused loops for
chains of matrix products, else at most one, as the peer would need more than five minutes.

The peer has an environment of its own, and wants Graphviz's `dot` on the PATH:

    python3.12 -m venv .venv-peer && .venv-peer/bin/pip install accelforge==1.0.467
    python benchmarks/fusion_vs_peer.py --measure-peer

Without --measure-peer its figures are those of benchmarks/peer/accelforge-1.0.467-fusion.json, measured the same way;
where there are none, only ours are printed. --missing: only cases without figures of the peer; --peer: its interpreter.
"""

from __future__ import annotations

from typing import Any

from peer.compare import HERE, PEER, Case, Limits, compare

EDP = "energy_delay_product"
ONE_LOOP = {"max_fused_loops": 1}


def on(levels: int, name: str, workload: str, define: dict[str, Any], metric: str, **options: int) -> Case:
    """A case on one of the architectures of 2 to 5 levels, intermediates inside."""
    return Case(name, str(levels), f"arch_{levels}_levels", workload, {**define, "INSIDE": 1}, metric, options)


def chain(length: int, levels: int, metric: str) -> Case:
    return on(levels, f"chain of {length} on {levels}", "chain", {"N": length}, metric)


def mobilenet(channels: int, size: int, levels: int, metric: str) -> Case:
    define = {"C": channels, "M": channels, "P": size, "Q": size}
    return on(levels, f"MobileNet pair {channels}x{size}x{size}", "mobilenet_pair", define, metric, **ONE_LOOP)


def gpt3(outer_nests: int, tokens: int, cached: int = 0) -> dict[str, Any]:
    return {"HEADS": outer_nests, "TOKENS": tokens, "CACHED": cached}


CASES = (
    chain(2, 2, "energy"),
    chain(2, 4, EDP),
    chain(4, 2, EDP),
    chain(4, 5, "latency"),
    chain(8, 2, "energy"),
    mobilenet(256, 28, 2, EDP),
    mobilenet(128, 56, 3, "energy"),
    Case("GPT-3 6.7B prefill", "Eyeriss", "eyeriss_like", "gpt3_layer", gpt3(32, 2048), EDP, ONE_LOOP, most=2.0),
    on(4, "GPT-3 6.7B decode", "gpt3_layer", gpt3(32, 2047, 1), "energy", **ONE_LOOP),
    on(2, "GPT-3 175B prefill", "gpt3_layer", gpt3(96, 2048), EDP, **ONE_LOOP),
    on(3, "GPT-3 175B decode", "gpt3_layer", gpt3(96, 2047, 1), "latency", **ONE_LOOP),
    on(2, "Llama-3 8B prefill", "llama3_layer", {"TOKENS": 2048}, "energy", **ONE_LOOP),
)

if __name__ == "__main__":
    compare(CASES, HERE / f"{PEER}-fusion.json", Limits(whole=8.0, peak=400.0), __doc__)
