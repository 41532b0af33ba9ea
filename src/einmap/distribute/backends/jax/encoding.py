"""Plans as JSON documents: how a process gets one without unpickling anything.

A dataclass is {its name: [its fields in order]}, a tuple a list; nothing else occurs in a plan.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.plans.plan import Buffer, Combine, Fill, Local, LocalLoop, Move, Plan, Put, Repeat, Turn
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.operation import Apply, Number, Operand, Operation
from einmap.einsum.spaces.projection import Affine, Lookup
from einmap.einsum.workload import Workload

_TYPES: dict[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        Plan, Mesh, Buffer, Placement, Split, Local, LocalLoop, Turn, Move, Combine, Fill, Put, Repeat,
        Workload, Einsum, TensorAccess, Affine, Lookup, Operation, Apply, Number, Operand,
    )
}  # fmt: skip


def encode(value: object) -> Any:
    """A plan, or any part of it, in the types of JSON. Raises TypeError for anything else."""
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [encode(item) for item in value]
        case _ if is_dataclass(value) and type(value).__name__ in _TYPES:
            return {type(value).__name__: [encode(getattr(value, field.name)) for field in fields(value)]}
    raise TypeError(f"a plan holds no {type(value).__name__}")


def decode(document: Any) -> Any:
    """The value that `encode` was given. Raises KeyError for a type that no plan has."""
    match document:
        case list():
            return tuple(decode(item) for item in document)
        case dict():
            ((name, values),) = document.items()
            return _TYPES[name](*map(decode, values))
        case _:
            return document


def decode_plan(document: Any) -> Plan:
    """The plan that `encode` was given. Raises KeyError for a type that no plan has."""
    plan = decode(document)
    assert isinstance(plan, Plan)
    return plan
