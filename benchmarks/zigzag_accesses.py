"""Values that each memory reads and writes, as ZigZag 3.9.1 counts them and as einmap does, for mappings of ZigZag's.

DIR is the folder `inputs` of a copy of ZigZag, as for zigzag_agreement.py; PYTHON the interpreter that has ZigZag. Some
convolutions of its ResNet-18 are mapped by ZigZag, each by itself; the same loops, with the same memories above and
below them, are evaluated here, and what moves is compared by memory, operand and direction. Cycles are those of
computing alone.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import tempfile
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

import einmap
from einmap import Spec
from einmap.frontends.zigzag.read import read
from zigzag_agreement import PAIRS, plain, unrolled

HARDWARE = ("tpu_like", "tesla_npu_like", "edge_tpu_like", "meta_prototype", "ascend_like")
LAYERS = (0, 2, 8)
PEER = Path(__file__).parent / "peer" / "zigzag_one.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("python", type=Path)
    args = parser.parse_args()
    parts = re.split(r"(?m)^(?=- id:)", (args.folder / "workload" / "resnet18.yaml").read_text())[1:]
    print("| hardware | layer | cycles | ZigZag | equal counts | the rest |")
    print("|---|---|---|---|---|---|")
    for hardware in HARDWARE:
        for number in LAYERS:
            with tempfile.TemporaryDirectory() as scratch:
                workload = Path(scratch) / "layer.yaml"
                workload.write_text(re.sub(r"(?m)^  operand_source:\n(    \w+: \d+\n)+", "", parts[number]))
                files = (
                    workload,
                    args.folder / "hardware" / f"{hardware}.yaml",
                    args.folder / "mapping" / f"{PAIRS[hardware]}.yaml",
                )
                print(row(hardware, files, args.python), flush=True)


def row(hardware: str, files: tuple[Path, ...], python: Path) -> str:
    """One layer on one architecture."""
    done = subprocess.run([str(python), str(PEER), *map(str, files)], capture_output=True, text=True, check=False)
    layer = plain(files[0])[0]
    sizes = " x ".join(str(size) for size in layer["loop_sizes"] if size > 1)
    if done.returncode:
        return f"| {hardware} | {sizes} | | | ZigZag fails: {done.stderr.strip().splitlines()[-1][:80]} | |"
    (theirs,) = json.loads(done.stdout.splitlines()[-1])
    result = read(files, define={}, root=(), bits=None)
    spec = einmap.loads("\n".join(result.files[name] for name in ("workload.yaml", "architecture.yaml")))
    array = plain(files[1])
    spread = unrolled(layer, plain(files[2]), array.get("operational_array") or array["multipliers"])
    try:
        cost = einmap.evaluate(mapped(spec, theirs, spread))
    except einmap.EinmapError as error:
        return f"| {hardware} | {sizes} | | {theirs['cycles']:,.0f} | | {str(error).splitlines()[0][:120]} |"
    ours = dict(counts(spec, cost))
    wanted = dict(counted(theirs))
    rest = [
        f"{memory} {operand} {what}: {ours.get((memory, operand, what), 0):,.0f}, {count:,.0f}"
        for (memory, operand, what), count in wanted.items()
        if ours.get((memory, operand, what), 0) != count
    ]
    cycles = next(r.latency for r in cost.latencies if r.component == "MAC") * spec.get("arch.variables.CLOCK")
    equal = f"{len(wanted) - len(rest)} of {len(wanted)}"
    return f"| {hardware} | {sizes} | {cycles:,.0f} | {theirs['cycles']:,.0f} | {equal} | {'; '.join(rest)} |"


def counted(theirs: dict[str, Any]) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What ZigZag says: values by memory, operand and direction."""
    for operand, levels in theirs["moved"].items():
        for memory, level in zip(theirs["memories"][operand], levels, strict=True):
            yield (memory, operand, "read"), level["rd_out_to_low"] + level["rd_out_to_high"]
            yield (memory, operand, "write"), level["wr_in_by_low"] + level["wr_in_by_high"]


def operand_of(tensor: str) -> str:
    """The letter of a tensor: `W_Layer0` is W, the result O."""
    return tensor[0] if tensor[1:2] == "_" else "O"


def counts(spec: Spec, cost: Any) -> Iterator[tuple[tuple[str, str, str], float]]:
    """What einmap says."""
    arch = spec.arch()
    for found in cost.actions:
        if found.tensor is not None:
            per_value = arch.find(found.component).action(found.action).actions_per_value[found.tensor]
            saved = arch.find(found.component).action(found.action).saved_by_complete.get(found.tensor, 0)
            yield (found.component, operand_of(found.tensor), found.action), round(found.count / (per_value - saved), 3)


def mapped(spec: Spec, theirs: dict[str, Any], spread: list[tuple[str, str, int]]) -> Spec:
    """The specification with ZigZag's loops, and without what gives partial sums bits of their own, or time."""
    given = spec.to_dict()
    given["workload"].pop("partial_bits_per_value", None)
    for node in given["arch"]["nodes"]:
        for dimension in node.get("spatial", ()):
            dimension.pop("skew", None)
            dimension.pop("loop_bounds", None)
    given.pop("renames", None)
    bare = Spec.from_dict(given)
    given["mapping"] = {"nodes": list(nodes(bare, theirs, spread))}
    return Spec.from_dict(given)


def nodes(spec: Spec, theirs: dict[str, Any], spread: list[tuple[str, str, int]]) -> Iterator[dict[str, Any]]:
    """Loops in ZigZag's order, the storage nodes of each operand above those of its level, lanes above the first
    memory that they have."""
    (einsum,) = spec.workload.einsums
    names = {variable.rstrip("0123456789").rstrip("_").upper(): variable for variable in einsum.extents}
    order = [loop for level in next(iter(theirs["temporal"].values())) for loop in level]
    tensors = {operand_of(tensor): tensor for tensor in einsum.tensors}
    path = [leaf.name for leaf in spec.arch().path("MAC")]
    stands: dict[int, list[tuple[int, str, str]]] = {}
    for operand, levels in theirs["temporal"].items():
        below = 0
        for number, (memory, level) in enumerate(zip(theirs["memories"][operand], levels, strict=True)):
            below += len(level)
            position = len(order) if number == len(levels) - 1 else below
            stands.setdefault(position, []).append((path.index(memory), memory, tensors[operand]))
    lanes = {name: [d.name for d in spec.arch().find(name).spatial] for name in path if spec.arch().find(name).spatial}
    inside = {
        variable: prod(size for loop, size in order if names.get(loop) == variable) for variable in einsum.extents
    }
    for loop, _, factor in spread:
        inside[names[loop]] *= factor
    for position in range(len(order), -1, -1):
        for index, memory, tensor in sorted(stands.get(position, ())):
            yield from opened(path[:index], lanes, spread, names, inside)
            yield {"type": "Storage", "component": memory, "tensors": [tensor]}
        if position:
            loop, size = order[position - 1]
            inside[names[loop]] //= size
            yield {"type": "Temporal", "rank_variable": names[loop], "tile_shape": inside[names[loop]]}
    yield from opened(path, lanes, spread, names, inside)
    yield {"type": "Compute", "einsum": einsum.name, "component": "MAC"}


def opened(
    above: list[str], lanes: dict[str, list[str]], spread: list[tuple[str, str, int]], names: dict[str, str],
    inside: dict[str, int],
) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The loops over the lanes of fanouts above a memory, those that do not stand yet."""
    for component in [name for name in above if name in lanes]:
        for dimension in lanes.pop(component):
            for loop, along, factor in spread:
                if along == dimension and factor > 1:
                    inside[names[loop]] //= factor
                    yield {
                        "type": "Spatial", "rank_variable": names[loop], "tile_shape": inside[names[loop]],
                        "component": component, "name": dimension,
                    }  # fmt: skip


if __name__ == "__main__":
    main()
