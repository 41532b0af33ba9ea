"""Input models of a machine file: the memories, links and compute units of a plan for a matrix product."""

from __future__ import annotations

from pydantic import StrictBool

from einmap.spec.schema.base import Expression, Input


class LevelInput(Input):
    """One level of memory; sizes in bits, bandwidths in bits/s, start-up costs in s."""

    name: str
    size: Expression
    workers: Expression = 1
    load_bandwidth: Expression
    store_bandwidth: Expression | None = None
    accumulate_bandwidth: Expression | None = None
    zero_bandwidth: Expression | None = None
    startup: Expression = 0
    run_startup: Expression = 0
    line: Expression = 1


class ComputeUnitInput(Input):
    """What computes: flop/s by data type, and how much of that blocks of a size get."""

    name: str = "compute"
    flops: dict[str, Expression]
    pads: StrictBool = False
    efficiency: dict[str, dict[str, Expression]] = {}


class MachineInput(Input):
    """The top-level key `machine`; levels from the outermost in."""

    name: str | None = None
    main: str = "main"
    grain: Expression | dict[str, Expression] = 1
    levels: list[LevelInput]
    compute: ComputeUnitInput
