"""Input models of machine facts that change how long a mapping takes."""

from __future__ import annotations

from typing import get_args

from pydantic import StrictBool

from einmap.arch.component import Buffering, Stalls
from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented


class PortsInput(Input):
    """`ports` of a memory: how many accesses one instance serves at a time, each as fast as `throughput` says."""

    read: Expression = documented("Ports that serve reads alone.", 1, unit="ports", default=0)
    write: Expression = documented("Ports that serve writes alone.", 1, unit="ports", default=0)
    read_write: Expression = documented("Ports that serve a read or a write.", 2, unit="ports", default=0)


class BanksInput(Input):
    """`banks` of a memory: equal parts of it, each of which serves one access at a time."""

    number: Expression = documented("Banks of one instance.", 8, unit="banks", default=...)
    conflicts: str = documented(
        "Which banks the accesses of one moment fall on: `none`, different ones; `random`, any: of n accesses on b "
        "banks `b * (1 - (1 - 1/b) ** n)` are served on average; `interleaved`, those in which the lines of the "
        "memory's `layout` lie.",
        "random",
        words=("none", "random", "interleaved"),
        default="none",
    )
    interleave: dict[str, dict[str, Expression]] = documented(
        "With `conflicts: interleaved`: how many banks further the next line along each rank lies, by set of tensors; "
        "0 along ranks that are left out.",
        {"A": {"M": 1, "K": 2}},
        unit="banks",
        without="lines are dealt out to the banks one after another, in their `order`",
        default={},
    )


class MemoryTimingInput(Input):
    """Timing of a memory: whether it is filled while it is used, and how many accesses it serves."""

    buffering: str = documented(
        "Whether the next tiles come in while those that are there are used: `ideal`, without room of their own; "
        "`double`, into half of `size`; `single`, never: the memory is filled and emptied while nothing below it "
        "works.",
        "double",
        words=get_args(Buffering.__value__),
        default="ideal",
    )
    wind_up: StrictBool = documented(
        "Whether what is below the memory waits until its first tiles are there, and its last results go out when all "
        "else is done. For `ideal` and `double` buffers.",
        True,
        default=False,
    )
    stalls: str = documented(
        "How transfers of tiles hide behind work: `average`, all of them behind all of it; `tile_by_tile`, those of "
        "each turn behind the work of its neighbours. For `ideal` and `double` buffers.",
        "tile_by_tile",
        words=get_args(Stalls.__value__),
        default="average",
    )
    ports: PortsInput | None = documented(
        "Ports of one instance, in place of `total_latency`. Reads and writes that may use the same ports share them, "
        "others overlap.",
        {"read": 1, "write": 1},
        without="one port, which serves reads and writes one after another",
    )
    separate_read_write_ports: StrictBool = documented(
        "`true` stands for `ports: {read: 1, write: 1}`: reads and writes overlap. AccelForge's name.",
        True,
        default=False,
    )
    banks: BanksInput | None = documented(
        "Banks of one instance: no more accesses are served at a time than there are banks that they fall on.",
        {"number": 8, "conflicts": "random"},
        without="every port finds a bank",
    )
    refresh_busy: Expression = documented(
        "The part of the time in which one instance refreshes its cells and serves no access: tRFC / tREFI of a DRAM. "
        "The throughput of all its actions counts times the rest.",
        "350e-9 / 7.8e-6",
        unit="part of the time, below 1",
        default=0,
    )
    refresh_power: Expression = documented(
        "Power of refreshing one instance, on average, before the scales of the leakage. It counts during every "
        "Einsum, and is never gated; of a DRAM (IDD5B - IDD3N) * VDD, times `refresh_busy`.",
        "(250e-3 - 46e-3) * 1.2 * refresh_busy",
        unit="W",
        default=0,
    )


class ActionTimingInput(Input):
    """When an action begins, and when its value is there."""

    startup: Expression = documented(
        "Time that each transfer takes before its first action: each fill and each write-back of a tile of a memory "
        "inside, at this memory and at that one. For `read` and `write` of memories.",
        "100e-9",
        unit="s",
        default=0,
    )
    pipeline_latency: Expression = documented(
        "Time from when an action begins until its value is there; others begin meanwhile. An Einsum takes at least "
        "as long as one value needs on its way in and out. For `read` and `write` of memories, and `compute`.",
        "20e-9",
        unit="s",
        default=0,
    )
