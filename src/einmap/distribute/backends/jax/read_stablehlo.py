"""The collectives of a lowered program, with loops multiplied out.

Reads the StableHLO module of `jax.stages.Lowered.compiler_ir` through the methods of its own objects (operations,
attributes, regions), so that nothing of JAX needs to be imported here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.distribute.backends.observed_collectives import PERMUTE, Collective, groups_over, merged, sorted_pairs
from einmap.distribute.placements.mesh import Group
from einmap.errors import InvariantError

_KINDS = {
    "stablehlo.all_gather": "all_gather",
    "stablehlo.reduce_scatter": "reduce_scatter",
    "stablehlo.all_reduce": "all_reduce",
    "stablehlo.all_to_all": "all_to_all",
    "stablehlo.collective_permute": PERMUTE,
    "stablehlo.collective_broadcast": "broadcast",
}
_MESH = re.compile(r'"(\w+)"=(\d+)')
_MESH_AXES = re.compile(r"#stablehlo\.replica_group_mesh_axes<mesh = @(\w+), axes = \[(.*)\]>")
_AXIS = re.compile(r'#stablehlo\.axis_ref<name = "(\w+)">')
_TENSOR = re.compile(r"tensor<((?:\d+x)*)[a-z]+(\d+)>")


@dataclass
class _Program:
    """A module: its functions and device meshes by name."""

    functions: dict[str, Any] = field(default_factory=dict)
    meshes: dict[str, list[tuple[str, int]]] = field(default_factory=dict)


def collectives(module: Any) -> tuple[Collective, ...]:
    """All collectives that one run of `main` executes on each device.

    Raises InvariantError where that cannot be known: a loop whose number of turns is not a constant, a collective
    under a condition, a form of groups that is not understood.
    """
    program = _Program()
    for operation in _operations(module.operation):
        name = operation.name
        if name == "func.func":
            program.functions[_symbol(operation.attributes["sym_name"])] = operation
        elif name == "sdy.mesh":
            program.meshes[_symbol(operation.attributes["sym_name"])] = _mesh_axes(str(operation.attributes["mesh"]))
    return merged(_walk(program, program.functions["main"], 1))


def _walk(program: _Program, parent: Any, times: int) -> Iterator[Collective]:
    for operation in _operations(parent):
        name = operation.name
        if name in _KINDS:
            yield _collective(program, operation, times)
        elif name == "stablehlo.while":
            yield from _walk(program, operation, times * trip_count(operation))
        elif name in ("func.call", "call"):
            yield from _walk(program, program.functions[_symbol(operation.attributes["callee"])], times)
        elif name in ("stablehlo.case", "stablehlo.if"):
            if any(True for _ in _walk(program, operation, times)):
                raise InvariantError("the program has a collective under a condition; its count is unknown")
        else:
            yield from _walk(program, operation, times)


def _operations(parent: Any) -> Iterator[Any]:
    for region in parent.regions:
        for block in region.blocks:
            for operation in block.operations:
                yield operation.operation


def _symbol(attribute: Any) -> str:
    return str(attribute).strip('@"')


# collectives


def _collective(program: _Program, operation: Any, times: int) -> Collective:
    operands = sum(_bytes(value) for value in operation.operands)
    results = sum(_bytes(value) for value in operation.results)
    return Collective(_KINDS[operation.name], _groups(program, operation), operands, results, times)


def _bytes(value: Any) -> int:
    match = _TENSOR.fullmatch(str(value.type))
    if match is None:
        raise InvariantError(f"the program moves a {value.type}, whose size is unknown")
    shape = [int(size) for size in match[1].split("x") if size]
    return math.prod(shape) * int(match[2]) // 8


def _groups(program: _Program, operation: Any) -> tuple[Group, ...]:
    if operation.name == "stablehlo.collective_permute":
        return sorted_pairs(np.asarray(operation.attributes["source_target_pairs"]).tolist())
    attribute = operation.attributes["replica_groups"]
    by_axes = _MESH_AXES.fullmatch(str(attribute))
    if by_axes is None:
        # before JAX 0.10 (or so) groups are written out, a matrix with one group in each row
        return tuple(tuple(map(int, row)) for row in np.asarray(attribute).tolist())
    mesh = program.meshes[by_axes[1]]
    names = [name for name, _ in mesh]
    axes = _AXIS.findall(by_axes[2])
    if not axes or _AXIS.sub("", by_axes[2]).strip(" ,"):
        raise InvariantError(f"groups of an unknown form: {attribute}")
    return groups_over([size for _, size in mesh], [names.index(axis) for axis in axes])


def _mesh_axes(text: str) -> list[tuple[str, int]]:
    if "device_ids" in text:
        raise InvariantError(f"a mesh whose devices are not in order: {text}")
    return [(name, int(size)) for name, size in _MESH.findall(text)]


# loops


def trip_count(loop: Any) -> int:
    """Turns of a `stablehlo.while` that counts from one constant to another, as `lax.fori_loop` and `lax.scan` do.

    Raises InvariantError for any other loop.
    """
    condition, body = (region.blocks[0] for region in loop.regions)
    compare = _owner(_returned(condition)[0])
    if (
        compare is None
        or compare.name != "stablehlo.compare"
        or "LT" not in str(compare.attributes["comparison_direction"])
    ):
        raise _unknown_count(loop)
    counter = _argument(compare.operands[0], condition)
    limit = _constant(compare.operands[1])
    if counter is None or limit is None:
        raise _unknown_count(loop)
    begin = _constant(loop.operands[counter])
    step = _step(_returned(body)[counter], body, counter)
    if begin is None or not step:
        raise _unknown_count(loop)
    return max(0, -(-(limit - begin) // step))


def _returned(block: Any) -> Any:
    last = list(block.operations)[-1]
    return last.operation.operands


def _step(value: Any, body: Any, counter: int) -> int | None:
    """The number that a turn adds to the counter; None when it does anything else."""
    add = _owner(value)
    if add is None or add.name != "stablehlo.add" or _argument(add.operands[0], body) != counter:
        return None
    step = _constant(add.operands[1])
    return step if step is not None and step > 0 else None


def _owner(value: Any) -> Any | None:
    """The operation that gives a value; None for an argument of a block."""
    owner = value.owner
    return getattr(owner, "operation", owner) if hasattr(owner, "attributes") else None


def _argument(value: Any, block: Any) -> int | None:
    return next((i for i, argument in enumerate(block.arguments) if argument == value), None)


def _constant(value: Any) -> int | None:
    owner = _owner(value)
    if owner is None or owner.name != "stablehlo.constant":
        return None
    values = np.asarray(owner.attributes["value"])
    return int(values.reshape(-1)[0]) if values.size == 1 else None


def _unknown_count(loop: Any) -> InvariantError:
    return InvariantError(f"a loop of the program has an unknown number of turns: {str(loop)[:200]}")
