"""Processor time of an evaluation with zeros beside that of the same mapping with dense tensors.

    python benchmarks/sparse_speed.py [REPEATS]

A product of 128 x 128 x 128 values on one lane, another on 4 x 8 lanes, and a layer of a convolution, each with
densities of four kinds. The least of REPEATS (100) evaluations each, in turn in one process. Specifications are loaded
before; the time of the first evaluation, which finds what is kept for others, stands beside. Then mappings with other
outer loops, each of which is evaluated once: the median; and so mappings with other tiles in all memories.
"""

import sys
import time
from collections.abc import Callable
from itertools import product
from statistics import median

import einmap

MACHINE = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, leak_power: 0, area: 0, bits_per_action: 8, tensors: {keep: All},
      actions: [{name: read, energy: 8e-12, throughput: 2e9}, {name: write, energy: 8e-12, throughput: 2e9}]}
  - !Memory {name: Buffer, size: inf, leak_power: 0, area: 0, bits_per_action: 8,
      actions: [{name: read, energy: 1e-12, throughput: 2e9}, {name: write, energy: 1e-12, throughput: 2e9}]}
  - !Container {name: Array, spatial: [{name: X, fanout: 4}, {name: Y, fanout: 8}]}
  - !Memory {name: Reg, size: inf, leak_power: 0, area: 0, bits_per_action: 8,
      actions: [{name: read, energy: 1e-13, throughput: 2e9}, {name: write, energy: 1e-13, throughput: 2e9}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1e-12, throughput: 1e9}]}
"""
PRODUCT = ("M: 128, N: 128, K: 128", "Z[m, n] = A[m, k] * B[n, k]")
LAYER = ("P: 14, Q: 14, R: 3, S: 3, C: 64, M: 64", "Z[m, p, q] = A[c, H: p + r, W: q + s] * B[m, c, r, s]")
PROBLEMS = {
    "product": (*PRODUCT, "Main A B Z / n 1 / Buffer B / m 1 / Buffer A / Reg Z / k 1"),
    "product on lanes": (*PRODUCT, "Main A B Z / m 32 / n 32 / Buffer A B Z / m 8 X / n 4 Y / Reg Z / k 1 / m 1 / n 1"),
    "layer": (
        *LAYER,
        "Main A B Z / m 16 / c 16 / Buffer A B Z / m 4 X / c 2 Y / Reg B / p 1 / q 1 / c 1 / m 1 / r 1 / s 1",
    ),
}
"""Sizes, Einsum, and nodes of a mapping from the outside in: what a memory holds, or a tile and the lanes it is for."""
OUTER = {
    "product": {"k": (64, 32, 16, 8), "m": (64, 32, 16, 8)},
    "product on lanes": {"k": (64, 32, 16, 8, 4, 2), "m": (64, 32), "n": (64, 32)},
    "layer": {"p": (7, 2), "q": (7, 2), "m": (32, 16), "c": (32, 16)},
}
"""Tiles of loops outside of those of a mapping, of which other mappings are made."""
TILED = {
    "product": ("Main A B Z / n {n} / k {k} / Buffer B / m {m} / Buffer A / Reg Z / k 1 / m 1 / n 1", "nkm"),
    "product on lanes": (
        "Main A B Z / k {k} / m {m} / n {n} / Buffer A B Z / m {m4} X / n {n8} Y / Reg Z / k 1 / m 1 / n 1",
        "kmn",
    ),
    "layer": (
        "Main A B Z / p {p} / m {m} / c {c} / Buffer A B Z / m {m4} X / c {c8} Y / Reg B / "
        "p 1 / q 1 / c 1 / m 1 / r 1 / s 1",
        "pmc",
    ),
}
"""Mappings whose tiles are given, and their rank variables: `m4` is a fourth of `m`, `c8` an eighth of `c`."""
TILES = {"p": (7, 2), "m": (8, 16, 32, 64), "n": (8, 16, 32, 64), "k": (4, 16, 64, 32), "c": (8, 16, 32, 64)}
"""Tiles by rank variable: each mapping has others than those before it, as far as there are others."""
DENSITIES = {
    "uniform": ("0.25", "0.4"),
    "even": ("{even: 0.25}", "{even: 0.4}"),
    "structured": ("0.25", "{structured: [2, 4], along: %s}"),
    "masks": ("{uniform: 0.25, seed: 1}", "{uniform: 0.4, seed: 2}"),
}
SAVINGS = """
  formats: {Main: {A | B: %s}, Buffer: {A | B: %s}}
  savings:
  - {at: Buffer, do: skip, tensors: A, on: B}
  - {at: Buffer, do: skip, tensors: B, on: A}
  - {at: Reg, do: skip, tensors: Z, on: A | B}
  - {at: MAC, do: gate, on: A | B}
"""


def text_of(sizes: str, einsum: str, nodes: str) -> str:
    """A specification with dense tensors."""
    lines = [f"workload: {{rank_sizes: {{{sizes}}}, bits_per_value: {{All: 8}}, einsums: ['{einsum}']}}"]
    lines += ["mapping:", "  nodes:"]
    for node in nodes.split(" / "):
        first, *rest = node.split()
        if first.istitle():
            lines.append(f"  - !Storage {{tensors: [{', '.join(rest)}], component: {first}}}")
        elif len(rest) == 1:
            lines.append(f"  - !Temporal {{rank_variable: {first}, tile_shape: {rest[0]}}}")
        else:
            lines.append(
                f"  - !Spatial {{rank_variable: {first}, tile_shape: {rest[0]}, component: Array, name: {rest[1]}}}"
            )
    return MACHINE + "\n".join([*lines, "  - !Compute {einsum: Z, component: MAC}", ""])


def others(name: str) -> list[str]:
    """Nodes of mappings that have other outer loops."""
    _, _, nodes = PROBLEMS[name]
    first, rest = nodes.split(" / ", 1)
    choices = [[f"{v} {n}" for n in tiles] for v, tiles in OUTER[name].items()]
    return [" / ".join([first, *loops, rest]) for loops in product(*choices)]


def tiled(name: str) -> list[str]:
    """Nodes of mappings that have other tiles in all memories."""
    nodes, variables = TILED[name]
    found = []
    for i in range(8):
        tiles = {v: TILES[v][(i + (i // 4) * k) % len(TILES[v])] for k, v in enumerate(variables)}
        parts = {f"{v}{n}": max(1, tile // n) for v, tile in tiles.items() for n in (4, 8)}
        found.append(nodes.format(**tiles, **parts))
    return found


def seconds(call: Callable[[], object]) -> float:
    """Processor time of a call."""
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main(repeats: int) -> None:
    """Print the times of all problems with all densities."""
    for name, (sizes, einsum, nodes) in PROBLEMS.items():
        text = text_of(sizes, einsum, nodes)
        specs = {"dense": einmap.loads(text)}
        for kind, (a, b) in DENSITIES.items():
            form, rank = ("csf", "C") if name == "layer" else ("coo", "K")
            zeros = f"sparsity:\n  densities: {{A: {a}, B: {b.replace('%s', rank)}}}"
            specs[kind] = einmap.loads(text + zeros + SAVINGS % (form, form))
        first = {kind: seconds(lambda spec=spec: einmap.evaluate(spec)) for kind, spec in specs.items()}
        times: dict[str, list[float]] = {kind: [] for kind in specs}
        for _ in range(repeats):
            for kind, spec in specs.items():
                times[kind].append(seconds(lambda spec=spec: einmap.evaluate(spec)))
        dense = min(times["dense"])
        for kind in specs:
            least = min(times[kind])
            print(
                f"{name:18} {kind:12} {least * 1e3:6.2f} ms {least / dense:5.2f} times dense; "
                f"first {first[kind] * 1e3:6.2f} ms"
            )
        for what, texts in (("loops", others(name)), ("tiles", tiled(name))):
            mappings = [einmap.loads(text_of(sizes, einsum, one)).mapping for one in texts]
            once = {kind: [0.0] * len(mappings) for kind in specs}
            for i, mapping in enumerate(mappings):
                for kind, spec in specs.items():
                    once[kind][i] = seconds(lambda spec=spec, mapping=mapping: einmap.evaluate(spec, mapping))
            dense = median(once["dense"])
            told = ", ".join(f"{kind} {median(times) / dense:.2f}" for kind, times in once.items())
            print(f"{name:18} {len(mappings)} other {what} once each: dense {dense * 1e3:.2f} ms; times that: {told}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
