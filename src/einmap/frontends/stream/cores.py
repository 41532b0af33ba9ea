"""Stream's hardware as one architecture: its cores are a dimension of the array, below the off-chip memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from einmap.errors import NotSupportedError, SpecError
from einmap.frontends.foreign import Fields, Report, Value
from einmap.frontends.yaml.dump import to_yaml
from einmap.frontends.yaml.folders import Roots
from einmap.frontends.zigzag.hardware import Array, Hardware, read_hardware
from einmap.frontends.zigzag.memories import Access, ZigzagMemory, read_memories
from einmap.frontends.zigzag.read import document
from einmap.spec.raw import RawMap, RawScalar

CORES = "Cores"
"""The dimension of the array that the equal cores are."""
_STREAM_ONLY = {
    "operand_precision": "widths of operands are those of the workload",
    "banks": "banks of the memory of a core have no counterpart",
    "utilization": "all of a memory is used",
    "max_object_fifo_depth": "queues between cores have no counterpart",
}
_LEFT = {
    "unit_energy_cost": "what moves between cores goes through the off-chip memory, at its cost",
    "core_coordinates": "the way between two cores does not count",
    "core_memory_sharing": "each core has its own memories",
    "memory_aliases": "each core has its own memories",
    "kernel_library": "kernels of code have no counterpart",
    "reconfiguration": "changing between programs has no counterpart",
    "bandwidth": "measured bandwidths: those of the ports count",
    "technology_node": "it changes nothing that is counted",
    "name": "",
}


@dataclass(frozen=True, slots=True)
class _Core:
    """One core: its description, and the text that is equal for equal cores."""

    number: int
    fields: Fields
    kind: str
    operators: str
    same: object


def read_cores(found: Value, file: Path, root: Sequence[Path], report: Report) -> tuple[Hardware, tuple[int, ...]]:
    """The hardware of a document, and the numbers of its equal cores. Raises SpecError with the place.

    Of several kinds of cores that compute, those count of which most are there, first those that name no operators.
    """
    fields = Fields(found, report)
    cores = [
        _core(number, fields, file, Roots.of([file], root), report)
        for number in Fields(fields.need("cores"), report).names
    ]
    outside = fields.need("offchip_core_id").integer()
    if outside not in {core.number for core in cores}:
        raise SpecError(f"there is no core {outside}", at=fields.need("offchip_core_id").at)
    compute = [core for core in cores if core.number != outside and core.kind == "compute"]
    if not compute:
        raise SpecError("no core computes", at=fields.need("cores").at)
    # a core that names operators is a helper, of pooling or vectors
    first = max(compute, key=lambda one: (not one.operators, sum(one.same == other.same for other in compute)))
    equal = [core for core in compute if core.same == first.same]
    for core in compute:
        if core not in equal:
            what = f"it has {core.operators}" if core.operators else "it is another one"
            report.leave(
                core.fields.at, f"cores.{core.number}", f"{what}; all layers run on the {len(equal)} equal cores"
            )
    hardware = read_hardware(first.fields.value, report)
    bus = _widest(fields, outside, report)
    offchip = next(core for core in cores if core.number == outside)
    hardware = _joined(hardware, len(equal), offchip, bus)
    for key, reason in _LEFT.items():
        if reason:
            fields.leave(key, reason)
    fields.get("name")
    fields.close({})
    return hardware, tuple(core.number for core in equal)


def _core(number: str, fields: Fields, file: Path, roots: Roots, report: Report) -> _Core:
    entry = Fields(fields.need("cores"), report).need(number)
    if not number.isdecimal():
        raise SpecError(f"a core is called by its number, found {number[:40]!r}", at=entry.at)
    same: object = None
    if isinstance(entry.raw, RawScalar):
        name = entry.text()
        places = (file.parent / name,) if "./" in name else (file.parent / "cores" / name, file.parent / name)
        path = next((one for one in places if "\0" not in name and one.is_file()), None)
        if path is None:
            raise entry.wrong("the file of a core, beside this one or in its folder `cores`")
        entry = document(roots.check(path.absolute(), name), report)
        same = path.resolve()
    same = same or to_yaml(entry.raw)
    core = Fields(entry, report)
    said = core.get("type")
    family, _, kind = (said.text() if said else "compute").rpartition(".")
    if family not in ("", "zigzag"):
        raise NotSupportedError(
            f"a core of the kind {family}.{kind} has no array: ZigZag's cores are read", at=entry.at
        )
    operators = core.get("operator_types")
    for key, reason in _STREAM_ONLY.items():
        core.leave(key, reason)
    assert isinstance(entry.raw, RawMap)
    kept = tuple((k, v) for k, v in entry.raw.items if k not in {"type", "operator_types", *_STREAM_ONLY})
    places_of = tuple(entry.raw.place_of(k) for k, _ in kept)
    plain = Value(replace(entry.raw, items=kept, key_at=places_of), entry.path)
    words = ", ".join(operators.texts()) if operators is not None else ""
    return _Core(int(number), Fields(plain, report), kind, words, same)


def _widest(fields: Fields, outside: int, report: Report) -> float | None:
    """Bits that a cycle moves between the off-chip memory and all cores; None where no bus does."""
    found: float | None = None
    for item in fields.need("core_connectivity").items():
        link = Fields(item, report)
        ends = [core.integer() for core in link.need("cores").items()]
        bandwidth = link.need("bandwidth").number()
        kind = link.get("type")
        if outside in ends and kind is not None and kind.text() == "bus":
            found = bandwidth if found is None else found + bandwidth
        elif outside not in ends:
            report.leave(item.at, "core_connectivity", "what cores exchange goes through the off-chip memory")
        link.leave("unit_energy_cost", _LEFT["unit_energy_cost"])
    return found


def _joined(hardware: Hardware, n: int, offchip: _Core, bus: float | None) -> Hardware:
    """The hardware of one core `n` times below the off-chip memory, which gives no more than the bus carries."""
    array = hardware.array
    fields = offchip.fields
    memories = read_memories(fields.need("memories"), fields, array.sizes)
    if len(memories) != 1:
        raise SpecError(f"an off-chip core has one memory, found {len(memories)}", at=fields.at)
    names = {memory.name for memory in hardware.memories}
    memory = memories[0]
    name = memory.name
    while name in names:
        name += "_"
    outer = replace(
        memory,
        name=name,
        shares=frozenset({CORES, *array.sizes}),
        read=_within(memory.read, bus),
        write=_within(memory.write, bus),
    )
    sizes = {CORES: n, **array.sizes} if n > 1 else dict(array.sizes)
    if n == 1:
        outer = replace(outer, shares=frozenset(array.sizes))
    inner: list[ZigzagMemory] = [*hardware.memories]
    return Hardware(Array(sizes, array.energy, array.cycles, array.systolic), (*inner, outer), hardware.dataflows)


def _within(access: Access, bus: float | None) -> Access:
    """An access of no more bits than a bus carries in a cycle, at the same energy of a bit."""
    if bus is None or bus >= access.bits or bus < 1:
        return access
    energy = None if access.energy is None else access.energy * int(bus) / access.bits
    return Access(int(bus), energy)
