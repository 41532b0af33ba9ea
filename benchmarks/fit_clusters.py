"""Constants of the clusters h100_node, h200_node and a100_nodes, fitted to measured operators.

    pip install --target FOLDER --no-deps aiconfigurator_core==0.12.0     (PyPI, Apache-2.0)
    python -m benchmarks.fit_clusters FOLDER/aiconfigurator_core/systems/data [--served measured.csv]

Its tables have seconds of products, attention and collectives by framework (TensorRT-LLM, vLLM, SGLang); medians over
these, of the newest versions, are fitted, relative errors with less weight on large ones. Printed are the fields of
each cluster and the errors of the operators (`einmap.distribute.operators`). Needs numpy, pandas, pyarrow and scipy.

One constant of the links is not that of the tables: a collective of a model takes longer, as devices wait for the
slowest. `--served`: measured runs on several devices (`calibration` of `serving_steps.py`) set it.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.serving_steps import CLUSTERS, calibration, predicted, queued
from scipy.optimize import least_squares

from einmap.distribute.costs.cluster import Cluster, Kernel, Link, ProcessingElement
from einmap.distribute.operators import Attention, Exchange, Operator, Product, operator_seconds

FRAMEWORKS = ("trtllm", "vllm", "sglang")
MIB = 2.0**20
MOVED = (2 * MIB, 8 * MIB, 32 * MIB, 128 * MIB, 512 * MIB)
COMPUTED = (1e10, 1e11, 1e12, 1e13)
PASSED = (2.0**15, 2.0**18, 2.0**20, 2.0**22, 2.0**24, 2.0**27)
LAUNCH = 2.2e-6
"""Seconds: a kernel that casts few values, median of TensorRT-LLM and vLLM on H100."""
WAIT = 1.25e-6
"""Seconds that a message of a collective takes longer in a model (`--served`)."""


@dataclass(frozen=True)
class System:
    """Data sheets, per device: operations/s by bits, bytes of memory, bytes/s of memory and of links."""

    name: str
    peak: tuple[tuple[int, float], ...]
    memory: float
    memory_bandwidth: float
    bandwidth: float


SYSTEMS = {
    "h100_node": System("h100_sxm", ((8, 1979e12), (16, 989e12)), 80 * 2**30, 3350e9, 450e9),
    "h200_node": System("h200_sxm", ((8, 1979e12), (16, 989e12)), 141e9, 4800e9, 450e9),
    "a100_nodes": System("a100_sxm", ((16, 312e12),), 80 * 2**30, 2039e9, 300e9),
}


def tables(folder: Path, system: str, kind: str, file: str) -> pd.DataFrame:
    """The newest table of each framework."""
    found = []
    for framework in FRAMEWORKS:
        paths = (folder / system / kind / framework).glob(f"*/{file}.parquet")
        newest = max(paths, key=lambda path: [int(part) for part in re.findall(r"\d+", path.parent.name)], default=None)
        if newest is not None:
            table = pd.read_parquet(newest)
            if "backend" in table:
                table = table[table.backend.str.endswith("graph")]
            found.append(table)
    whole = pd.concat(found)
    return whole[whole.window_size.fillna(0) == 0] if "window_size" in whole else whole


def medians(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """Medians over frameworks, in seconds; at most 3,000 rows, drawn with a fixed seed."""
    found = table.groupby(list(keys)).latency.median().mul(1e-3).rename("seconds").reset_index()
    return found.sample(min(len(found), 3000), random_state=0)


def fitted(
    model: Callable[[np.ndarray], np.ndarray], first: Sequence[float], most: Sequence[float], seconds: np.ndarray
) -> np.ndarray:
    """Positive constants with the least relative errors."""

    def errors(logs: np.ndarray) -> np.ndarray:
        return np.log(model(np.exp(logs)) / seconds)

    start = np.log(first)
    bounds = (start - 3, np.log(most))
    return np.exp(least_squares(errors, start, bounds=bounds, loss="soft_l1", f_scale=0.1).x)


def at_rate(sizes: np.ndarray, knots: Sequence[float], parts: np.ndarray, rate: float) -> np.ndarray:
    """Seconds by a table of efficiencies, as `ProcessingElement.seconds` has them; times rise from row to row."""
    taken = np.maximum.accumulate(np.asarray(knots) / parts) / rate
    inside = np.interp(sizes, knots, taken)
    below, above = sizes * taken[0] / knots[0], sizes * taken[-1] / knots[-1]
    return np.where(sizes < knots[0], below, np.where(sizes > knots[-1], above, inside))


def longest(one: np.ndarray, other: np.ndarray, exposed: float) -> np.ndarray:
    """The longer of two times, and the part of the shorter that it does not hide."""
    return np.maximum(one, other) + exposed * np.minimum(one, other)


def table_of(knots: Sequence[float], parts: np.ndarray) -> tuple[tuple[float, float], ...]:
    """Rows of a cluster's table: rounded, times rising."""
    rows: list[tuple[float, float]] = []
    for size, part in zip(knots, parts, strict=True):
        highest = 1.0 if not rows else size / rows[-1][0] * rows[-1][1]
        rows.append((size, min(round(float(part), 3), highest)))
    return tuple(rows)


def products(folder: Path, system: System) -> pd.DataFrame:
    """Measured products whose weights have 1,024 rows and columns and more."""
    table = tables(folder, system.name, "gemm", "gemm_perf")
    table = table[table.gemm_dtype.isin(["bfloat16", "fp8"]) & (table.n >= 1024) & (table.k >= 1024)]
    table = table[table.m <= 16384]
    return pd.concat([medians(part, "gemm_dtype", "m", "n", "k") for _, part in table.groupby("gemm_dtype")])


def with_products(folder: Path, system: System) -> ProcessingElement:
    """A PE with what products reach; in 8 bits they are a kind of kernel, and activations are cast first."""
    peak = dict(system.peak)
    bandwidth = system.memory_bandwidth
    table = products(folder, system)
    kernels: dict[int, Kernel] = {}
    memory: tuple[tuple[float, float], ...] = ()
    exposed = 0.0
    for name, bits in (("bfloat16", 16), ("fp8", 8)):
        some = table[table.gemm_dtype == name]
        if not len(some):
            continue
        m, n, k = (some[key].to_numpy(float) for key in ("m", "n", "k"))
        moved, computed = bits / 8 * (m * k + k * n) + 2 * m * n, 2 * m * n * k
        known = np.array([part for _, part in memory])
        cast = at_rate(3 * m * k, MOVED, known, bandwidth) + LAUNCH if memory else np.zeros(len(some))

        def seconds(
            constants: np.ndarray,
            bits: int = bits,
            sizes: Any = (moved, computed, cast, known),
            exposed: float = exposed,
        ) -> np.ndarray:
            moved, computed, cast, known = sizes
            parts = known if len(known) else constants[len(COMPUTED) + 1 :]
            moving = at_rate(moved, MOVED, parts, bandwidth)
            computing = at_rate(computed, COMPUTED, constants[: len(COMPUTED)], peak[bits])
            exposed = exposed if len(known) else constants[len(COMPUTED)]
            return longest(moving, computing, exposed) + LAUNCH + cast

        first = [0.5, 0.6, 0.7, 0.75] + ([] if memory else [0.2, 0.3, 0.5, 0.7, 0.8, 0.85])
        found = fitted(seconds, first, [1.0] * len(first), some.seconds.to_numpy())
        exposed = exposed or round(float(found[len(COMPUTED)]), 2)
        memory = memory or table_of(MOVED, found[len(COMPUTED) + 1 :])
        kernels[bits] = Kernel(LAUNCH, table_of(COMPUTED, found[: len(COMPUTED)]), memory)
    wide = kernels.pop(16)
    return ProcessingElement(
        system.peak,
        memory=system.memory,
        memory_bandwidth=bandwidth,
        exposed=exposed,
        launch=wide.launch,
        efficiency=wide.efficiency,
        memory_efficiency=wide.memory_efficiency,
        kernels=tuple(kernels.items()),
    )


def generation(folder: Path, system: System) -> pd.DataFrame:
    """Measured attention of one new position, 4 to 8 heads for each of keys and values."""
    table = tables(folder, system.name, "attention", "generation_attention_perf")
    shared = table.num_heads / table.num_key_value_heads
    table = table[(table.head_dim == 128) & shared.between(4, 8) & (table.batch_size <= 512) & (table.step >= 127)]
    return medians(table, "kv_cache_dtype", "batch_size", "num_heads", "num_key_value_heads", "step")


def prefill(folder: Path, system: System) -> pd.DataFrame:
    """Measured attention of whole prompts."""
    table = tables(folder, system.name, "attention", "context_attention_perf")
    shared = table.num_heads / table.num_key_value_heads
    table = table[
        (table.head_dim == 128) & shared.between(4, 8) & (table.isl >= 512) & (table.attn_dtype == "bfloat16")
    ]
    return medians(table, "kv_cache_dtype", "batch_size", "num_heads", "num_key_value_heads", "isl")


def with_attention(folder: Path, system: System, pe: ProcessingElement) -> ProcessingElement:
    """The PE with what fused attention reaches, where keys and values have 16 bits."""
    table = prefill(folder, system)
    table = table[table.kv_cache_dtype == "bfloat16"]
    sequences, heads, length = (table[name].to_numpy(float) for name in ("batch_size", "num_heads", "isl"))
    computed = 512 * sequences * heads * length * (length + 1) / 2
    peak = pe.peak_for(16)

    def whole(constants: np.ndarray) -> np.ndarray:
        return at_rate(computed, COMPUTED, constants, peak) + 10e-6

    shares = fitted(whole, [0.3, 0.4, 0.6, 0.6], [1.0] * 4, table.seconds.to_numpy())
    table = generation(folder, system)
    table = table[table.kv_cache_dtype == "bfloat16"]
    sequences, heads, kv, step = (
        table[name].to_numpy(float) for name in ("batch_size", "num_heads", "num_key_value_heads", "step")
    )
    moved = 512 * sequences * (kv * (step + 1) + heads)
    computing = at_rate(512 * sequences * heads * (step + 1), COMPUTED, shares, peak)

    def decode(constants: np.ndarray) -> np.ndarray:
        moving = at_rate(moved, MOVED, constants[1:], pe.memory_bandwidth)
        return longest(moving, computing, pe.exposed) + constants[0]

    found = fitted(decode, [9e-6, 0.3, 0.5, 0.7, 0.8, 0.85], [20e-6, 1, 1, 1, 1, 1], table.seconds.to_numpy())
    kernel = Kernel(round(float(found[0]), 7), table_of(COMPUTED, shares), table_of(MOVED, found[1:]))
    return replace(pe, attention=kernel)


def reduced(folder: Path, system: System) -> pd.DataFrame:
    """Measured all-reduces of 4 KiB and more; the tables' sizes count values of 16 bits."""
    table = tables(folder, system.name, "comm", "custom_allreduce_perf")
    table = table.assign(moved=2 * table.message_size)
    return medians(table[table.moved >= 4096], "num_gpus", "moved")


def link(folder: Path, system: System) -> Link:
    """Links within a node: a latency, and a table for groups of 2, 4 and 8."""
    table = reduced(folder, system)
    latency = round(float(table[table.num_gpus == 8].seconds.min()) / 6 * 0.8, 8)
    groups = []
    for parts, some in table.groupby("num_gpus"):
        passed = some.moved.to_numpy(float) * 2 * (parts - 1) / parts

        def seconds(constants: np.ndarray, passed: np.ndarray = passed, parts: int = int(parts)) -> np.ndarray:
            return at_rate(passed, PASSED, constants, system.bandwidth) + 2 * np.log2(parts) * latency

        found = fitted(seconds, [0.1, 0.2, 0.2, 0.3, 0.4, 0.6], [1.0] * 6, some.seconds.to_numpy())
        groups.append((int(parts), table_of(PASSED, found)))
    return Link(system.bandwidth, latency, "switch", groups[-1][1], size=8, groups=tuple(groups))


def as_served(cluster: Cluster, wait: float) -> Cluster:
    """A cluster whose messages take so much longer."""
    link = cluster.links[0][1]
    return replace(cluster, links=(("x", replace(link, latency=link.latency + wait)),))


def served_wait(path: Path, clusters: dict[str, Cluster]) -> float:
    """The wait with the least mean error, large ones counted as 25 %, of runs on several devices that set constants."""
    rows = [row for row in calibration(path) if row.tp > 1 and not queued(row, clusters[CLUSTERS[row.system]])]

    def error(wait: float) -> float:
        served = {name: as_served(cluster, wait) for name, cluster in clusters.items()}
        taken = [predicted(row, served[CLUSTERS[row.system]]) / row.measured for row in rows]
        return float(np.mean([min(0.25, abs(ratio - 1)) for ratio in taken]))

    best = min((quarters * 0.25e-6 for quarters in range(13)), key=error)
    print(f"{len(rows)} rows of runs: mean error {error(best):.1%} with a wait of {best:.3g} s")
    return best


def judged(folder: Path, system: System) -> Iterator[tuple[str, Operator, float]]:
    """Measured operators: a name of their kind, the operator, seconds."""
    for row in products(folder, system).itertuples():
        bits = 8 if row.gemm_dtype == "fp8" else 16
        rows = "1 to 64" if row.m <= 64 else "65 to 512" if row.m <= 512 else "more than 512"
        product = Product(row.m, row.n, row.k, bits, cast_from=16 if bits == 8 else None)
        yield f"products of {bits} bits, {rows} rows", product, row.seconds
    for row in generation(folder, system).itertuples():
        bits = 8 if row.kv_cache_dtype == "fp8" else 16
        attention = Attention(
            row.batch_size, row.num_heads, row.num_key_value_heads, row.step + 1, bits=bits, width=128
        )
        yield f"attention of one position, cache of {bits} bits", attention, row.seconds
    for row in prefill(folder, system).itertuples():
        attention = Attention(row.batch_size, row.num_heads, row.num_key_value_heads, row.isl, queries=row.isl, bits=16)
        yield "attention of whole prompts", attention, row.seconds
    for row in reduced(folder, system).itertuples():
        yield f"all-reduces among {row.num_gpus}", Exchange(row.moved, row.num_gpus), row.seconds


def written(cluster: Cluster) -> Iterator[str]:
    """Fields of a cluster as its file has them."""

    def table(rows: Sequence[tuple[float, float]]) -> str:
        return "{" + ", ".join(f"{size:.7g}: {part:.3g}" for size, part in rows) + "}"

    pe, (_, link) = cluster.pe, cluster.links[0]
    yield f"    launch: {pe.launch:.2g}"
    yield f"    exposed: {pe.exposed:.2g}"
    yield f"    efficiency: {table(pe.efficiency)}"
    yield f"    memory_efficiency: {table(pe.memory_efficiency)}"
    yield "    kernels:"
    for name, kernel in (*((f"fp{bits}", kernel) for bits, kernel in pe.kernels), ("attention", pe.attention)):
        assert kernel is not None
        yield f"      {name}:"
        yield f"        launch: {kernel.launch:.2g}"
        yield f"        efficiency: {table(kernel.efficiency)}"
        yield f"        memory_efficiency: {table(kernel.memory_efficiency)}"
    yield f"      latency: {link.latency:.3g}"
    yield "      groups:"
    for parts, rows in link.groups:
        yield f"        {parts}: {table(rows)}"


def main() -> None:
    """Print the constants and their errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="aiconfigurator_core/systems/data")
    parser.add_argument("--cluster", choices=SYSTEMS, action="append")
    parser.add_argument("--served", type=Path)
    options = parser.parse_args()
    clusters: dict[str, Cluster] = {}
    for name in options.cluster or SYSTEMS:
        system = SYSTEMS[name]
        pe = with_attention(options.folder, system, with_products(options.folder, system))
        clusters[name] = Cluster(pe, (("x", link(options.folder, system)),))
    wait = served_wait(options.served, clusters) if options.served else WAIT
    for name, cluster in clusters.items():
        errors: dict[str, list[float]] = {}
        for kind, operator, seconds in judged(options.folder, SYSTEMS[name]):
            errors.setdefault(kind, []).append(operator_seconds(cluster, operator) / seconds - 1)
        print(f"{name}:")
        print("\n".join(written(as_served(cluster, wait))))
        for kind, some in errors.items():
            size = np.abs(some)
            print(
                f"  {kind}: {len(some)} rows, mean error {size.mean():.1%}, median {np.median(size):.1%}, "
                f"bias {np.mean(some):+.1%}"
            )


if __name__ == "__main__":
    main()
