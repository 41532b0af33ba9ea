"""Input models of a machine file: the memories, links and compute units of a plan for a matrix product."""

from __future__ import annotations

from pydantic import StrictBool

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented


class LevelInput(Input):
    """One level of memory, and the link of each memory to the level above it."""

    name: str = documented("Name of the level, given once in the machine: letters, digits and `_`.", "L2", default=...)
    size: Expression = documented(
        "Room of the memory of one worker; the blocks of A, B and C fit in it together.",
        "2**20 * 8",
        unit="bits",
        default=...,
    )
    workers: Expression = documented(
        "How many workers there are for each worker of the level above, each with a memory and a link of its own. "
        "They share the innermost loop.",
        4,
        unit="workers",
        default=1,
    )
    load_bandwidth: Expression = documented(
        "What one worker's link loads from the level above; `inf` for no time.", "8 * 60e9", unit="bits/s", default=...
    )
    store_bandwidth: Expression | None = documented(
        "What it stores to the level above.", "8 * 60e9", unit="bits/s", without="as `load_bandwidth`"
    )
    accumulate_bandwidth: Expression | None = documented(
        "What it adds to values of the level above, atomically: a read and a write there.",
        "8 * 30e9",
        unit="bits/s",
        without="half of `store_bandwidth`",
    )
    zero_bandwidth: Expression | None = documented(
        "How fast blocks of this memory are filled with zeros; `inf` for no time.",
        "8 * 120e9",
        unit="bits/s",
        without="as `load_bandwidth`",
    )
    startup: Expression = documented("Time that each transfer of a block takes beside.", "20e-9", unit="s", default=0)
    run_startup: Expression = documented(
        "Time that each further run of consecutive addresses of the level above takes in a transfer.",
        "2e-9",
        unit="s",
        default=0,
    )
    line: Expression = documented("Transfers move whole lines of this size.", "64 * 8", unit="bits", default=1)


class ComputeUnitInput(Input):
    """Compute units: one for each worker of the innermost level."""

    name: str = documented("Name of the units: letters, digits and `_`.", "fma", default="compute")
    flops: dict[str, Expression] = documented(
        "What one unit computes, by the number format of A and B: `fp32`, `bf16`, `int8`, ... A multiply-add is two "
        "operations.",
        {"fp32": "192e9", "bf16": "384e9"},
        unit="flop/s",
        default=...,
    )
    pads: StrictBool = documented(
        "Whether blocks count as rounded up to `grain`, as for a unit of fixed size.", True, default=False
    )
    efficiency: dict[str, dict[str, Expression]] = documented(
        "The part of the peak that a block of a size gets, for `m`, `k` and `n`: from each size given on. The three "
        "multiply.",
        {"n": {"1": 0.1, "16": 0.5, "32": 1}},
        unit="fraction, above 0 and up to 1, by size in values",
        without="all of the peak",
        default={},
    )


class MachineInput(Input):
    """The top-level key `machine`: memories from the outermost in, below a main memory that holds everything."""

    name: str | None = documented("Name of the machine in reports.", "cpu_core", without="the name of the file")
    main: str = documented("Name of the main memory above all levels.", "DRAM", default="main")
    grain: Expression | dict[str, Expression] = documented(
        "The smallest block along m, k and n: one number for all, or one for each. Blocks are multiples of it, or all "
        "of a dimension.",
        *({"m": 8, "k": 8, "n": 16}, 16),
        unit="values",
        default=1,
    )
    levels: list[LevelInput] = documented(
        "Memories from the outermost in, 1 to 8.",
        [{"name": "L2", "size": "2**20 * 8", "load_bandwidth": "8 * 60e9"}],
        default=...,
    )
    compute: ComputeUnitInput = documented("The compute units.", {"flops": {"fp32": "192e9"}}, default=...)
