"""Import ZigZag's hardware files with its ResNet-18: operations and ideal cycles compared.

DIR is the folder `inputs` of a copy of ZigZag (KULeuven-MICAS/zigzag), with `hardware`, `workload/resnet18.yaml` and
`mapping`. The ideal cycles of the files are worked out from the files alone, by ZigZag's rule: a loop of N iterations
that is spread F times takes ceil(N / F) steps. Those of einmap are counted by `evaluate` on mappings with these spatial
loops, perfect or not.
`--zigzag FILE` adds a column: cycles by hardware that ZigZag itself reported, as a JSON dictionary.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

import einmap
from einmap import Spec
from einmap.frontends.zigzag.read import read

PAIRS = {
    "ascend_like": "ascend_like",
    "edge_tpu_like": "edge_tpu_like",
    "eyeriss_like": "default",
    "meta_prototype": "meta_prototype_like",
    "tesla_npu_like": "tesla_npu_like",
    "tpu_like": "tpu_like",
    "aimc": "tpu_like",
    "dimc": "tpu_like",
    "imc_macro": "tpu_like",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--zigzag", type=Path)
    args = parser.parse_args()
    reported = json.loads(args.zigzag.read_text()) if args.zigzag else {}
    workload = args.folder / "workload" / "resnet18.yaml"
    print("| hardware | mapping | operations | of the file | ideal cycles | of the file | ZigZag reports | left out |")
    print("|---|---|---|---|---|---|---|---|")
    worst = 0
    for hardware, mapping in PAIRS.items():
        files = [args.folder / "hardware" / f"{hardware}.yaml", workload, args.folder / "mapping" / f"{mapping}.yaml"]
        if not files[0].exists():
            print(f"| {hardware} | not in this copy | | | | | | |")
            continue
        result = read(files, define={}, root=(), bits=None)
        spec = einmap.loads("\n".join(result.files[name] for name in ("workload.yaml", "architecture.yaml")))
        layers, entries, array = (plain(file) for file in (files[1], files[2], files[0]))
        array = array.get("operational_array") or array["multipliers"]
        ours = list(cycles(spec, layers, entries, array))
        operations = sum(prod(layer["loop_sizes"]) for layer in layers)
        steps = sum(by_hand(layer, entries, array) for layer in layers)
        worst |= spec.workload.n_computes != operations or sum(ours) != steps
        row = [
            hardware,
            mapping,
            spec.workload.n_computes,
            operations,
            round(sum(ours)),
            steps,
            reported.get(hardware, "-"),
        ]
        print(
            "| " + " | ".join(f"{v:,}" if isinstance(v, int) else str(v) for v in (*row, len(result.left_out))) + " |"
        )
    sys.exit(worst)


def plain(file: Path) -> Any:
    yaml = YAML(typ="safe", pure=True)
    yaml.allow_duplicate_keys = True  # tpu_like has `ports` twice, the same ports
    return yaml.load(file)


def entry_of(layer: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    by_name = {entry["name"]: entry for entry in entries}
    return by_name.get(layer.get("name")) or by_name.get(layer["operator_type"]) or by_name["default"]


def unrolled(layer: dict[str, Any], entries: list[dict[str, Any]], array: dict[str, Any]) -> list[tuple[str, str, int]]:
    """Loop dimension, dimension of the array, and factor, as far as both have room."""
    sizes = dict(zip(layer["loop_dims"], layer["loop_sizes"], strict=True))
    units = dict(zip(array["dimensions"], array["sizes"], strict=True))
    found = []
    for dimension, texts in (entry_of(layer, entries).get("spatial_mapping") or {}).items():
        for text in texts:
            loop, factor = text.split(",")
            if loop in sizes:
                found.append((loop, dimension, min(int(factor), sizes[loop], units[dimension])))
    return found


def by_hand(layer: dict[str, Any], entries: list[dict[str, Any]], array: dict[str, Any]) -> int:
    """Steps of a layer, times the steps of an operation whose inputs come bit by bit."""
    steps = dict(zip(layer["loop_dims"], layer["loop_sizes"], strict=True))
    for loop, _, factor in unrolled(layer, entries, array):
        steps[loop] = -(-steps[loop] // factor)
    serial = -(-array["input_precision"][0] // array["bit_serial_precision"]) if array.get("is_imc") else 1
    return prod(steps.values()) * serial


def cycles(
    spec: Spec, layers: list[dict[str, Any]], entries: list[dict[str, Any]], array: dict[str, Any]
) -> Iterator[float]:
    """For each layer the cycles of its busiest unit, in a mapping with the spatial loops of the file."""
    by_number = {einsum.name: einsum for einsum in spec.workload.einsums}
    branches = []
    for layer in layers:
        einsum = by_number[f"Layer{layer['id']}"]
        names = {variable.rstrip("0123456789").rstrip("_").upper(): variable for variable in einsum.extents}
        spread = [(names[loop], dimension, factor) for loop, dimension, factor in unrolled(layer, entries, array)]
        branches.append({"type": "Nested", "nodes": list(nodes(spec, einsum, spread))})
    order = {einsum.name: number for number, einsum in enumerate(spec.workload.einsums)}
    branches.sort(key=lambda branch: order[branch["nodes"][-1]["einsum"]])
    outermost = spec.arch().memories[0].name
    everything = {"type": "Storage", "component": outermost, "tensors": list(spec.workload.tensors)}
    tree = {"nodes": [everything, {"type": "Sequential", "nodes": branches}]}
    given = {**spec.to_dict(), "mapping": tree}
    for node in given["arch"]["nodes"]:
        for dimension in node.get("spatial", ()):
            dimension.pop("skew", None)  # an array that drains takes longer than the ideal
    cost = einmap.evaluate(Spec.from_dict(given))
    clock = spec.get("arch.variables.CLOCK")
    for einsum in spec.workload.einsums:
        rows = [row for row in cost.latencies if (row.einsum, row.component) == (einsum.name, "MAC")]
        yield rows[0].latency * clock


def nodes(spec: Spec, einsum: Any, spread: list[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """All temporal loops outside, then memories and spatial loops by the path: each memory holds the least tile."""
    inside: dict[str, int] = {}
    for variable, _, factor in spread:
        inside[variable] = inside.get(variable, 1) * factor
    for variable, bound in einsum.extents.items():
        if bound > inside.get(variable, 1):
            yield {"type": "Temporal", "rank_variable": variable, "tile_shape": inside.get(variable, 1)}
    arch = spec.arch(einsum.name)
    for number, leaf in enumerate(arch.path("MAC")):
        for dimension in leaf.spatial:
            for variable, name, factor in spread:
                if name == dimension.name and factor > 1:
                    inside[variable] //= factor
                    yield {
                        "type": "Spatial",
                        "rank_variable": variable,
                        "tile_shape": inside[variable],
                        "component": leaf.name,
                        "name": name,
                    }
        if number and leaf in arch.memories:
            kept = [tensor for tensor in einsum.tensors if tensor in leaf.placement.keep.given({})]
            if kept:
                yield {"type": "Storage", "component": leaf.name, "tensors": sorted(kept)}
    yield {"type": "Compute", "einsum": einsum.name, "component": "MAC"}


if __name__ == "__main__":
    main()
