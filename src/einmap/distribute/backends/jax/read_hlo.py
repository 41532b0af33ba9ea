"""The collectives of a compiled program, from the text of its HLO (`jax.stages.Compiled.as_text`).

A compiler may merge collectives, drop repeated ones, split one into several, or choose others; so these numbers are
shown beside those of the lowered program, never held against the plan.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from einmap.distribute.backends.observed_collectives import PERMUTE, Collective, groups_over, merged, sorted_pairs
from einmap.distribute.placements.mesh import Group

_KINDS = {
    "all-gather": "all_gather",
    "reduce-scatter": "reduce_scatter",
    "all-reduce": "all_reduce",
    "all-to-all": "all_to_all",
    "ragged-all-to-all": "all_to_all",
    "collective-permute": PERMUTE,
    "collective-broadcast": "broadcast",
}
_COMPUTATION = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{$")
_INSTRUCTION = re.compile(
    r"^\s*(?:ROOT )?%?(?P<name>[\w.\-]+) = (?P<shape>\(.*?\)|\S+) (?P<op>[a-z][\w\-]*)\((?P<rest>.*)$"
)
_SHAPE = re.compile(r"\b(pred|[a-z]+(\d+)\w*)\[([\d,]*)\]")
_CALLED = re.compile(
    r"\b(?:calls|to_apply|body|branch_computations|true_computation|false_computation)=\{?([%\w.\-, ]+)\}?"
)
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_PAIRS = re.compile(r"source_target_pairs=\{((?:\{\d+,\d+\},?)*)\}")
_LISTED = re.compile(r"replica_groups=\{((?:\{[\d,]*\},?)*)\}")
_IOTA = re.compile(r"replica_groups=\[(\d+),(\d+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_MESH = re.compile(r"replica_groups=mesh\[([^\]]*)\] ?\{([^}]*)\}")


@dataclass
class _Computation:
    """Instructions: name -> (shape, operation, the rest of the line)."""

    instructions: dict[str, tuple[str, str, str]] = field(default_factory=dict)


def compiled_collectives(text: str) -> tuple[Collective, ...]:
    """The collectives that one run executes on each device; loops are multiplied out where HLO tells their turns."""
    computations, entry = _parse(text)
    return merged(_walk(computations, entry, 1)) if entry else ()


def _parse(text: str) -> tuple[dict[str, _Computation], str | None]:
    computations: dict[str, _Computation] = {}
    entry: str | None = None
    current = _Computation()
    for line in text.splitlines():
        if header := _COMPUTATION.match(line):
            current = computations[header[2]] = _Computation()
            entry = header[2] if header[1] else entry
        elif instruction := _INSTRUCTION.match(line):
            current.instructions[instruction["name"]] = instruction["shape"], instruction["op"], instruction["rest"]
    return computations, entry


def _walk(computations: dict[str, _Computation], name: str, times: int) -> Iterator[Collective]:
    computation = computations.get(name, _Computation())
    for _, operation, rest in computation.instructions.values():
        kind = _KINDS.get(operation.removesuffix("-start"))
        if kind is not None:
            yield _collective(computation, kind, rest, times)
            continue
        trips = _TRIPS.search(rest) if operation == "while" else None
        for called in _CALLED.findall(rest):
            for callee in re.split(r"[,\s]+", called):
                yield from _walk(computations, callee.strip("%"), times * int(trips[1] if trips else 1))


def _collective(computation: _Computation, kind: str, rest: str, times: int) -> Collective:
    names = re.findall(r"%?([\w.\-]+)(?:,|$)", _arguments(rest))
    operand = sum(_bytes(computation.instructions[name][0]) for name in names if name in computation.instructions)
    groups = _groups(rest)
    parts = len(groups[0]) if groups else 1
    result = {"all_gather": operand * parts, "reduce_scatter": operand // parts}.get(kind, operand)
    return Collective(kind, groups, operand, result, times)


def _arguments(rest: str) -> str:
    """The text before the parenthesis that ends the operands."""
    depth = 1
    for i, character in enumerate(rest):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return rest[:i]
    return rest


def _bytes(shape: str) -> int:
    total = 0
    for kind, bits, sizes in _SHAPE.findall(shape):
        width = 8 if kind == "pred" else int(bits)
        total += math.prod(int(size) for size in sizes.split(",") if size) * width // 8
    return total


def _groups(rest: str) -> tuple[Group, ...]:
    """The groups in any of the forms of HLO; empty where none is known."""
    if pairs := _PAIRS.search(rest):
        return sorted_pairs(_rows(pairs[1]))
    if listed := _LISTED.search(rest):
        return tuple(_rows(listed[1]))
    if mesh := _MESH.search(rest):
        axes = re.findall(r"'(\w+)'=(\d+)", mesh[1])
        names = [name for name, _ in axes]
        chosen = [names.index(name) for name in re.findall(r"'(\w+)'", mesh[2])]
        return groups_over([int(size) for _, size in axes], chosen)
    if iota := _IOTA.search(rest):
        return _iota(iota)
    return ()


def _iota(match: re.Match[str]) -> tuple[Group, ...]:
    """`[2,4]<=[4,2]T(1,0)`: count to 8 in shape 4,2, transpose, and cut into 2 groups of 4."""
    sizes = [int(size) for size in match[3].split(",")]
    order = [int(axis) for axis in match[4].split(",")] if match[4] else list(range(len(sizes)))
    ((row,)) = (groups_over(sizes, order),)
    flat, size = row[0], int(match[2])
    return tuple(flat[i : i + size] for i in range(0, len(flat), size))


def _rows(text: str) -> list[tuple[int, ...]]:
    return [tuple(int(n) for n in row.split(",") if n) for row in re.findall(r"\{([\d,]*)\}", text)]
