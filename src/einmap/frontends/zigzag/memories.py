"""The memories of ZigZag's hardware: what each holds, what an access costs, and its ports."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from decimal import Decimal

from einmap.errors import At, SpecError, did_you_mean
from einmap.frontends.foreign import Fields, Value
from einmap.frontends.zigzag.roles import ROLES
from einmap.spec.names import RESERVED, is_name

MAX_MEMORIES = 200
MAX_PORTS = 64
_KINDS = ("read", "write", "read_write")
_OLD_PORT = re.compile(r"(rw|r|w)_port_(\d+)", re.ASCII)
_OLD_KINDS = {"r": "read", "w": "write", "rw": "read_write"}
_AREA = "its unit is not said"
_GRANULE = "accesses are counted by their bits, and not rounded up to {bits}"
_POOLED = "ports of one kind serve all operands, whichever is free"


@dataclass(frozen=True, slots=True)
class Access:
    """One read or write: bits, and its energy (J), None where a model is asked."""

    bits: int
    energy: float | None


@dataclass(frozen=True, slots=True)
class ZigzagMemory:
    """A memory as the file has it. `shares`: dimensions of the array whose units use one instance together.

    `operands`: of I1, I2, O those that it holds; `ports`: numbers by kind.
    """

    name: str
    size: int
    operands: tuple[str, ...]
    shares: frozenset[str]
    read: Access
    write: Access
    ports: dict[str, int]
    is_double: bool
    is_dram: bool
    at: At


def read_memories(value: Value, fields: Fields, dimensions: Collection[str]) -> tuple[ZigzagMemory, ...]:
    """All memories in written order, the innermost first. Raises SpecError with the place of what is wrong."""
    entries = Fields(value, fields.report)
    if not 1 <= len(entries.names) <= MAX_MEMORIES:
        raise value.wrong(f"1 to {MAX_MEMORIES} memories")
    taken = {*RESERVED, *ROLES.values()}
    return tuple(_memory(key, Fields(entries.need(key), fields.report), dimensions, taken) for key in entries.names)


def _memory(key: str, fields: Fields, dimensions: Collection[str], taken: set[str]) -> ZigzagMemory:
    name = re.sub(r"\W", "_", key[:60], flags=re.ASCII)
    name = name if is_name(name) else f"memory_{name}"
    while name in taken:
        name += "_"
    taken.add(name)
    operands = fields.need("operands")
    held = tuple(_one_of(item, ROLES, "memory operands") for item in operands.items())
    if not held:
        raise operands.wrong("one or more of I1, I2, O")
    shares = frozenset(_one_of(item, dimensions, "dimensions") for item in fields.need("served_dimensions").items())
    size = fields.need("size").integer(1)
    is_dram = (kind := fields.get("mem_type")) is not None and kind.text().lower() == "dram"
    ports, read_bits, write_bits = _old_ports(fields) if fields.get("r_bw") is not None else _ports(fields)
    read, write = _energies(fields)
    fields.leave("latency", "an access takes as long as its bits need at the port")
    area = fields.get("area")
    if area is not None and area.number():
        fields.report.leave(area.at, "area", _AREA)
    memory = ZigzagMemory(
        name, size, held, shares, Access(read_bits, read), Access(write_bits, write), ports,
        fields.flag("force_double_buffering"), is_dram, fields.at,
    )  # fmt: skip
    fields.close({})
    return memory


def _energies(fields: Fields) -> tuple[float | None, float | None]:
    """Energy (J) of a read and a write; None for both where CACTI is to say it."""
    costs = [fields.get("r_cost"), fields.get("w_cost")]
    asked = fields.get("auto_cost_extraction")
    extracted = asked is not None and asked.flag()
    if extracted and asked is not None:
        what = "the model SRAM or DRAM gives costs" if None in costs else "the costs that are written count"
        fields.report.leave(asked.at, "auto_cost_extraction", f"{what}, CACTI is not asked")
    if None in costs and extracted:
        return None, None
    read, write = (joules(fields.need(key).number()) for key in ("r_cost", "w_cost"))
    return read, write


def joules(picojoules: float) -> float:
    """The float nearest to so many pJ, so that 0.1 pJ is written as 1e-13."""
    return float(Decimal(repr(picojoules)).scaleb(-12))


def _ports(fields: Fields) -> tuple[dict[str, int], int, int]:
    """Numbers of ports by kind, and the bits of a read and a write."""
    entries = fields.need("ports").items()
    if not 1 <= len(entries) <= MAX_PORTS:
        raise fields.need("ports").wrong(f"1 to {MAX_PORTS} ports")
    widths: dict[str, list[int]] = {kind: [] for kind in _KINDS}
    for entry in entries:
        port = Fields(entry, fields.report)
        kind = _one_of(port.need("type"), _KINDS, "kinds of ports")
        widths[kind].append(port.need("bandwidth_max").integer(1, 2**30))
        least = port.get("bandwidth_min")
        if least is not None and least.integer(1, 2**30) != widths[kind][-1]:
            port.report.leave(least.at, "bandwidth_min", _GRANULE.format(bits=least.integer()))
        port.get("name")
        port.get("allocation")
        port.close({})
    return _pooled(fields, widths)


def _pooled(fields: Fields, widths: dict[str, list[int]]) -> tuple[dict[str, int], int, int]:
    at = fields.need("ports").at
    bits = []
    for kind in ("read", "write"):
        serving = widths[kind] + widths["read_write"]
        if not serving:
            raise SpecError(f"no port of the memory serves a {kind}", at=at)
        if len(serving) > 1:
            fields.report.leave(at, "ports.allocation", _POOLED)
        if len(set(serving)) > 1:
            text = f"ports of {', '.join(map(str, sorted(set(serving))))} bits serve a {kind}, all count as the widest"
            fields.report.leave(at, "ports.bandwidth_max", text)
        bits.append(max(serving))
    return {kind: len(widths[kind]) for kind in _KINDS if widths[kind]}, bits[0], bits[1]


def _old_ports(fields: Fields) -> tuple[dict[str, int], int, int]:
    """The older form: `r_bw`, `w_bw`, numbers of ports, and who uses which."""
    bits = [fields.need(key).integer(1, 2**30) for key in ("r_bw", "w_bw")]
    for key in ("min_r_granularity", "min_w_granularity"):
        fields.leave(key, "accesses are counted by their bits, and not rounded up")
    used: dict[str, set[int]] = {kind: set() for kind in _KINDS}
    for entry in fields.need("ports").items():
        port = Fields(entry, fields.report)
        for direction in port.names:
            name = port.need(direction)
            found = _OLD_PORT.fullmatch(name.text())
            if direction not in ("fh", "fl", "th", "tl") or found is None:
                raise name.wrong("a port such as r_port_1 for fh, tl, fl or th")
            used[_OLD_KINDS[found[1]]].add(int(found[2]))
    widths: dict[str, list[int]] = {}
    for kind, key, width in (
        ("read", "r_port", bits[0]),
        ("write", "w_port", bits[1]),
        ("read_write", "rw_port", bits[0]),
    ):
        number = max(fields.integer(key, 0), len(used[kind]))
        if number > MAX_PORTS:
            raise fields.need(key).wrong(f"at most {MAX_PORTS} ports")
        widths[kind] = [width] * number
    ports, _, _ = _pooled(fields, widths)
    return ports, bits[0], bits[1]


def _one_of(value: Value, known: Collection[str], listing: str) -> str:
    text = value.text()
    if text not in known:
        raise value.wrong(f"one of {', '.join(sorted(known))}", hint=did_you_mean(text, known, listing=listing))
    return text
