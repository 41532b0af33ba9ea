"""ZigZag's hardware as the section `arch`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from einmap.errors import Note, NotSupportedError, SpecError
from einmap.frontends.foreign import Fields, Report, Value
from einmap.frontends.zigzag.hierarchy import placed
from einmap.frontends.zigzag.memories import ZigzagMemory, joules, read_memories
from einmap.frontends.zigzag.roles import ROLES

CLOCK = "CLOCK"
COMPUTE = "MAC"
_DIMENSION = re.compile(r"D\d", re.ASCII)
_IMC = "the energy of in-memory computing is that of a model of ZigZag's, not of the file: a MAC costs 0 J here"
_WIDTH = "widths of operands are those of the workload"
_CLOCK_NOTE = "ZigZag counts cycles: they take 1 ns each, which `arch.variables.CLOCK` of architecture.yaml changes"


@dataclass(frozen=True, slots=True)
class Array:
    """The array: sizes by dimension, the energy of a MAC (J), its cycles, and dimensions along which values move."""

    sizes: Mapping[str, int]
    energy: float
    cycles: int
    systolic: frozenset[str]


@dataclass(frozen=True, slots=True)
class Hardware:
    """Contents of a hardware file; `dataflows`: its spatial mapping, where it has one."""

    array: Array
    memories: tuple[ZigzagMemory, ...]
    dataflows: Value | None

    def arch(self, limits: Mapping[str, Sequence[Mapping[str, object]]], report: Report) -> dict[str, object]:
        """The section `arch`. `limits`: `loop_bounds` by dimension."""
        sizes = self.array.sizes
        nodes: list[dict[str, object]] = []
        arrays: list[dict[str, object]] = []

        def open_dimensions(dimensions: Sequence[str]) -> None:
            if dimensions:
                spatial = [self._spatial(dimension, limits) for dimension in dimensions]
                arrays.append({"type": "Container", "name": "Array", "spatial": spatial})
                nodes.append(arrays[-1])

        path, innermost = placed(_with_outside(self.memories, sizes, report), sizes)
        for place in path:
            open_dimensions(place.opened)
            if place.copies:
                number = prod(sizes[d] for d in place.copies)
                reason = (
                    f"one instance serves the units of {', '.join(place.copies)}; here each of them has its own, "
                    f"{number} for one, and the accesses of all count"
                )
                report.leave(place.memory.at, "served_dimensions", reason)
            nodes.append(_memory(place.memory))
        open_dimensions(innermost)
        for number, array in enumerate(arrays):
            array["name"] = f"Array{number + 1}" if len(arrays) > 1 else "Array"
        throughput = CLOCK if self.array.cycles == 1 else f"{CLOCK} / {self.array.cycles}"
        compute = {"name": "compute", "energy": self.array.energy, "throughput": throughput}
        nodes.append({"type": "Compute", "name": COMPUTE, "leak_power": 0, "actions": [compute]})
        report.notes.append(Note(_CLOCK_NOTE, kind="advice"))
        return {"variables": {CLOCK: 1e9}, "nodes": nodes}

    def _spatial(self, dimension: str, limits: Mapping[str, Sequence[Mapping[str, object]]]) -> dict[str, object]:
        spatial: dict[str, object] = {"name": dimension, "fanout": self.array.sizes[dimension]}
        if dimension in self.array.systolic:
            spatial["skew"] = "once"
        return {**spatial, "loop_bounds": list(limits[dimension])} if limits.get(dimension) else spatial


def read_hardware(document: Value, report: Report) -> Hardware:
    """The hardware of a document. Raises SpecError with the place of what is wrong."""
    fields = Fields(document, report)
    fields.get("name")
    key = (
        "multipliers" if fields.get("operational_array") is None and fields.get("multipliers") else "operational_array"
    )
    array = _array(Fields(fields.need(key), report))
    memories = read_memories(fields.need("memories"), fields, array.sizes)
    dataflows = fields.get("dataflows")
    fields.close({})
    return Hardware(array, memories, dataflows)


def _array(fields: Fields) -> Array:
    names, sizes = fields.need("dimensions"), fields.need("sizes")
    if len(names.items()) != len(sizes.items()):
        raise sizes.wrong(f"{len(names.items())} sizes, one for each dimension")
    by_name: dict[str, int] = {}
    for name, size in zip(names.items(), sizes.items(), strict=True):
        if not _DIMENSION.fullmatch(name.text()) or name.text() in by_name:
            raise name.wrong("one of D0 to D9, each once")
        by_name[name.text()] = size.integer(1, 2**30)
    if len(by_name) > 6:
        raise NotSupportedError(f"an array of {len(by_name)} dimensions, more than 6", at=names.at)
    systolic: set[str] = set()
    if (given := fields.get("systolic_dimensions")) is not None:
        for item in given.items():
            if item.text() not in by_name:
                raise item.wrong(f"one of {', '.join(by_name)}")
            systolic.add(item.text())
    for key in ("unit_area", "multiplier_area"):
        fields.leave(key, "its unit is not said")
    cycles, energy = _in_memory(fields) if fields.flag("is_imc") else (1, _unit_energy(fields))
    fields.leave("input_precision", _WIDTH)
    fields.close({})
    return Array(by_name, energy, cycles, frozenset(systolic))


def _unit_energy(fields: Fields) -> float:
    old = fields.get("multiplier_energy")
    return joules((old or fields.need("unit_energy")).number())


def _in_memory(fields: Fields) -> tuple[int, float]:
    """Cycles of a MAC whose inputs come bit by bit, and no energy."""
    precision = fields.need("input_precision")
    if len(precision.items()) != 2:
        raise precision.wrong("two numbers, the bits of an input and of a weight")
    serial = fields.need("bit_serial_precision").integer(1, 1024)
    fields.leave("imc_type", _IMC)
    fields.leave("adc_resolution", "see imc_type: compose the array from the component class ADC and cells")
    return -(-precision.items()[0].integer(1, 1024) // serial), 0.0


def _with_outside(
    memories: Sequence[ZigzagMemory], sizes: Mapping[str, int], report: Report
) -> tuple[ZigzagMemory, ...]:
    """The memories, the last of which serves the whole array and holds all that no other outermost one holds."""
    for operand in ROLES:
        if not any(operand in memory.operands for memory in memories):
            text = f"no memory holds {operand}: it comes from a memory `outside` without limits or costs"
            report.notes.append(Note(text, at=memories[-1].at))
    last = memories[-1]
    if set(last.operands) == set(ROLES):
        if missing := [d for d in sizes if d not in last.shares]:
            reason = f"the outermost memory is one for all units, those of {', '.join(missing)}, too"
            report.leave(last.at, "served_dimensions", reason)
        return (*memories[:-1], replace(last, shares=frozenset(sizes)))
    outermost = {op: next((m for m in reversed(memories) if op in m.operands), None) for op in ROLES}
    homeless = tuple(op for op, memory in outermost.items() if memory is None or not set(sizes) <= memory.shares)
    if not homeless:
        return tuple(memories)
    return (*memories, _outside(homeless, frozenset(sizes), last))


def _outside(operands: tuple[str, ...], shares: frozenset[str], last: ZigzagMemory) -> ZigzagMemory:
    free = replace(last.read, bits=1, energy=0.0)
    name = "outside" if last.name != "outside" else "outside_"
    return ZigzagMemory(name, 0, operands, shares, free, free, {}, False, False, last.at)


def _memory(memory: ZigzagMemory) -> dict[str, object]:
    node: dict[str, object] = {"type": "Memory", "name": memory.name}
    held = " | ".join(ROLES[operand] for operand in ROLES if operand in memory.operands)
    # uneven mappings: the storage nodes of one tensor stand anywhere among those of another
    tensors = {"keep": held, "force_memory_hierarchy_order": False}
    if not memory.size:
        free = [{"name": name, "energy": 0, "throughput": float("inf")} for name in ("read", "write")]
        return {**node, "size": float("inf"), "leak_power": 0, "tensors": tensors, "actions": free}
    node |= {"size": memory.size, "leak_power": 0, "tensors": tensors}
    if memory.is_double:
        node["buffering"] = "double"
    if memory.ports != {"read_write": 1}:
        node["ports"] = memory.ports
    if memory.read.energy is None:
        node["component_class"] = "DRAM" if memory.is_dram else "SRAM"
        node["extra_attributes_for_component_model"] = {"width": memory.read.bits, "tech_node": 28e-9}
    actions = []
    for name, access in (("read", memory.read), ("write", memory.write)):
        energy = {} if access.energy is None else {"energy": access.energy}
        actions.append({"name": name, **energy, "throughput": CLOCK, "bits_per_action": access.bits})
    node["actions"] = actions
    return node


def check_dimension(value: Value, dimension: str, array: Array) -> None:
    """Raise SpecError where a mapping names a dimension that the array lacks."""
    if dimension not in array.sizes:
        raise SpecError(f"the array has no dimension {dimension}", at=value.at, hint=f"it has {', '.join(array.sizes)}")
