"""Latency of the model against cycles measured on RTL: layers and mappings of Gemmini from DOSA (MICRO 2023).

    python -m benchmarks.gemmini_latency FILE.csv [--roofline]

The CSV has columns `mapping.mapping`, `prob.*`, `arch.*` and, last, the measured cycles (ucb-bar/dosa, BSD-2-Clause).
Rows that are faster than their mapping allows did not run it: they are dropped and counted. Prints Spearman's
correlation and the mean error of the model, and of the cycles that the file has as `target.cycle`, if these differ.
Scratchpad and accumulators are double-buffered and wind up and down, and the array is filled and drained; `--roofline`
leaves all of that out.
"""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.search_transfer import ranks

import einmap
from einmap.spec.spec import Spec

BUS = 8
"""Bytes of main memory in a cycle, to and from: of 4, 8 and 16 what fits the runs best that are not test rows."""
HOLDERS = {"L3": "DRAM", "L2": "Scratchpad", "L1": "Accumulator", "L0": "Registers"}
FANOUTS = {"L2": ("Columns", "x"), "L1": ("Rows", "y")}
LOOP = re.compile(r"([A-Z])(\d+)(X?)")


def machine(row: Mapping[str, str], *, roofline: bool = False) -> dict[str, Any]:
    """A weight-stationary array: main memory, scratchpad of weights and inputs, accumulators, a weight at each PE.

    1 Hz, so that seconds are cycles. `roofline`: everything overlaps, from the first cycle to the last.
    """
    mesh = int(row["arch.meshX"])
    buffered = {} if roofline else {"buffering": "double", "wind_up": True}
    skew = "none" if roofline else "once"

    def memory(name: str, keep: str, bandwidth: float | str, **more: Any) -> dict[str, Any]:
        actions = [{"name": action, "energy": 0, "throughput": bandwidth} for action in ("read", "write")]
        fields = {"type": "Memory", "name": name, "size": "inf", "leak_power": 0, "area": 0, "actions": actions}
        return {**fields, "tensors": {"keep": keep}, **more}

    def fanout(name: str, dimension: str) -> dict[str, Any]:
        return {
            "type": "Container",
            "name": name,
            "spatial": [{"name": dimension, "fanout": mesh, "may_reuse": "All", "skew": skew}],
        }

    compute = {"name": "compute", "energy": 0, "throughput": 1}
    return {
        "nodes": [
            memory("DRAM", "All", 8 * BUS, total_latency="sum(a.n_calls / a.throughput for a in actions)"),
            memory("Scratchpad", "I | W", "inf", **buffered),
            fanout("Columns", "x"),
            memory("Accumulator", "O", "inf", bits_per_value={"O": 32}, **buffered),
            fanout("Rows", "y"),
            memory("Registers", "W", "inf"),
            {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [compute]},
        ]
    }


def specification(row: Mapping[str, str], *, roofline: bool = False) -> Spec:
    """The layer with its mapping; sizes of ranks are the products of the mapping's factors."""
    parts = [part.split("] ") for part in row["mapping.mapping"].split(" - ")]
    loops = [(head[:2], head[3:], LOOP.findall(tail)) for head, tail in parts]
    bounds = {v: prod(int(n) for _, _, found in loops for w, n, _ in found if w == v) for v in "NCKPQRS"}
    left, nodes = dict(bounds), []
    for level, tensors, found in loops:
        nodes.append({"type": "Storage", "tensors": [*tensors], "component": HOLDERS[level]})
        for variable, factor, spatial in found:
            if factor == "1":
                continue
            left[variable] //= int(factor)
            loop = {"rank_variable": variable.lower(), "tile_shape": left[variable]}
            component, name = FANOUTS.get(level, ("", ""))
            place = {"type": "Spatial", "component": component, "name": name} if spatial else {"type": "Temporal"}
            nodes.append({**place, **loop})
    nodes.append({"type": "Compute", "einsum": "O", "component": "MAC"})
    stride, dilation = (int(row[f"prob.{axis}"]) for axis in ("Hstride", "Hdilation"))
    einsum = f"O[n, k, p, q] = I[n, c, H: {stride}*p + {dilation}*r, V: {stride}*q + {dilation}*s] * W[k, c, r, s]"
    sizes = {
        **bounds,
        "H": stride * (bounds["P"] - 1) + dilation * (bounds["R"] - 1) + 1,
        "V": stride * (bounds["Q"] - 1) + dilation * (bounds["S"] - 1) + 1,
    }
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [einsum]}
    return Spec.from_dict({"arch": machine(row, roofline=roofline), "workload": workload, "mapping": {"nodes": nodes}})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--most", type=int, default=None, help="rows that are looked at")
    parser.add_argument("--roofline", action="store_true", help="everything overlaps")
    asked = parser.parse_args()
    with asked.file.open() as stream:
        rows = list(csv.DictReader(stream))[: asked.most]
    dropped = refused = 0
    measured, modelled, published = [], [], []
    for row in rows:
        cycles = float(list(row.values())[-1])
        try:
            spec = specification(row, roofline=asked.roofline)
            cost = einmap.evaluate(spec)
        except einmap.EinmapError as error:
            refused += 1
            print(f"refused: {row['mapping.mapping']}: {error}")
            continue
        lanes = prod(int(n) for n in re.findall(r"[A-Z](\d+)X", row["mapping.mapping"]))
        if cycles < spec.workload.einsums[0].n_computes / lanes:
            dropped += 1
            continue
        measured.append(cycles)
        modelled.append(cost.latency)
        published.append(float(row["target.cycle"]))
    print(f"{len(measured)} rows, {dropped} dropped as faster than their mapping allows, {refused} refused")
    _judge("this model", np.array(modelled), np.array(measured))
    if published != measured:
        _judge("published analytical model", np.array(published), np.array(measured))


def _judge(name: str, modelled: Any, measured: Any) -> None:
    spearman = np.corrcoef(ranks(modelled), ranks(measured))[0, 1]
    error = np.abs(modelled - measured) / measured
    print(
        f"{name}: Spearman {spearman:.4f}, mean error {error.mean():.1%}, "
        f"median measured/model {np.median(measured / modelled):.3f}"
    )


if __name__ == "__main__":
    main()
