"""Input model of the distribution of a workload over a mesh."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from einmap.spec.schema.base import Input
from einmap.spec.schema.documented import documented

type AxisNames = str | list[str]


class RankSplitInput(Input):
    """A rank split over mesh axes in blocks of whole granules."""

    axes: AxisNames = documented(
        "The mesh axis, or several, the first of which is the slowest.", *("x", ["x", "y"]), default=...
    )
    granule: StrictInt = documented(
        "How many coordinates stay together, the size of a head in a rank of all heads, say; it divides the rank.",
        16,
        unit="coordinates",
        default=1,
    )
    block: StrictInt | None = documented(
        "How many coordinates a PE holds, where the rank is not cut as evenly as it can be.",
        32,
        unit="coordinates",
        without="as many as `granule` says, rounded up",
    )
    halo: StrictInt = documented(
        "How many coordinates after its block a PE holds as well, which are those of the next PEs: what an Einsum "
        "reads through a window such as `p + r`.",
        2,
        unit="coordinates",
        default=0,
    )


class LoopSplitInput(Input):
    """A rank variable of which each PE covers a block of values."""

    axes: AxisNames = documented(
        "The mesh axis, or several, the first of which is the slowest.", *("x", ["x", "y"]), default=...
    )
    block: StrictInt | None = documented(
        "How many values a PE covers.", 32, unit="values", without="as few as cover all, rounded up"
    )


type PartOfMesh = Annotated[
    dict[str, StrictInt],
    # so that a split without its axes is not taken for positions along axes
    Field(json_schema_extra={"propertyNames": {"not": {"enum": list(RankSplitInput.model_fields)}}}),
]
type PlacementInput = str | dict[str, AxisNames | RankSplitInput | PartOfMesh] | None


class ComputeStepInput(Input):
    """A step in which every PE evaluates its part of an Einsum."""

    compute: str = documented("The Einsum.", "Z", default=...)
    loops: dict[str, AxisNames | LoopSplitInput] = documented(
        "Rank variables, with the axes over which PEs share their values.",
        *({"m": "x"}, {"m": {"axes": "x", "block": 32}}),
        kind="dictionary of mesh axes or splits",
        without="every PE covers all values",
        default={},
    )
    reads: dict[str, PlacementInput] = documented(
        "How operands lie when they are read, written as in `placements`.",
        {"A": {"M": "x"}},
        without="replicated, each operand that is not named",
        default={},
    )


class MoveStepInput(Input):
    """A step in which a tensor is moved by one collective, or a block is cut from what every PE has."""

    move: str = documented("The tensor.", "Z", default=...)
    by: str = documented(
        "The collective, `permute` where PEs exchange whole blocks, `halo` where each gets what its halo lacks from "
        "the next one, `broadcast` from the PEs that `on` says, `reduce` to them, or `slice`.",
        "reduce_scatter",
        words=(
            "all_gather",
            "reduce_scatter",
            "all_reduce",
            "all_to_all",
            "permute",
            "halo",
            "broadcast",
            "reduce",
            "slice",
        ),
        default=...,
    )
    over: AxisNames = documented("The mesh axes of its groups.", *("x", ["x", "y"]), default=...)
    before: PlacementInput = documented(
        "How the tensor lies before, written as in `placements`.", {"partial": "x"}, without="replicated"
    )
    after: PlacementInput = documented("How it lies then.", {"M": "x"}, without="replicated")


class TurnsInput(Input):
    """Einsums that run block by block, in turns."""

    einsums: list[str] = documented(
        "Einsums that run in the same turns, each reading what those before it compute.", ["Z"], default=...
    )
    over: dict[str, AxisNames] = documented(
        "A rank variable of the first Einsum, whose values go block by block, and the axes over which they are split.",
        *({"k": "x"}, {"k": ["x", "y"]}),
        default=...,
    )
    panels: StrictInt | None = documented(
        "In how many panels blocks are cut, each of which is gathered while the one before is computed.",
        4,
        unit="turns",
        without="whole blocks travel from PE to PE",
    )


class DistributionInput(Input):
    """The top-level key `distribution`: a mesh of processing elements (PEs), and where tensors lie on it."""

    mesh: dict[str, Any] = documented(
        "Axes of the mesh and how many PEs lie along each. PEs are numbered row-major, the last axis the fastest.",
        {"x": 2, "y": 4},
        unit="PEs",
        schema={"additionalProperties": {"type": "integer", "minimum": 1}},
        default=...,
    )
    placements: dict[str, PlacementInput] = documented(
        "Where tensors lie: for each, its ranks with the axes over which they are split; `partial` with axes along "
        "which PEs hold addends; `on` with a position along an axis, where only PEs there hold it; or `replicated`. "
        "Over axes that are not named, a tensor is replicated.",
        *(
            {"A": {"K": "x"}, "Z": {"M": ["x", "y"]}},
            {"W": "replicated", "P": {"partial": "x"}},
            {"A": {"K": "x", "on": {"y": 0}}},
        ),
        without="inputs are replicated, results complete, anything between lies as it is cheapest",
        default={},
    )
    loops: dict[str, dict[str, AxisNames]] = documented(
        "How Einsums are spread: for each, rank variables with the axes over which PEs share their values.",
        {"Z": {"k": "x"}},
        without="derived: as few bytes are sent as possible",
        default={},
    )
    overlap: list[str] = documented(
        "Einsums whose reduce-scatter goes in chunks, each on its way while the next one is computed.",
        ["Z"],
        default=[],
    )
    steps: list[ComputeStepInput | MoveStepInput] | None = documented(
        "The plan itself, step by step, as `einmap plan -o` writes it: nothing is searched then. What the other keys "
        "say must be so.",
        [{"compute": "Z", "loops": {"k": "x"}, "reads": {"A": {"K": "x"}, "B": {"K": "x"}}}],
        [{"move": "Z", "by": "all_reduce", "over": "x", "before": {"partial": "x"}}],
        kind="list of steps",
        without="derived, as cheaply as the other keys allow",
    )
    prefetch: dict[str, str] = documented(
        "Tensors that are moved, mostly gathered, while an Einsum before their reader runs: from when the one before "
        "that is done.",
        {"W2": "U"},
        without="a tensor is moved right before the Einsum that reads it",
        default={},
    )
    turns: list[TurnsInput] = documented(
        "Einsums that run in as many turns as there are PEs along an axis: what they would gather over it stays in "
        "blocks, which go from PE to PE; or panel by panel.",
        *([{"einsums": ["Z"], "over": {"k": "x"}}], [{"einsums": ["Z"], "over": {"k": ["x", "y"]}, "panels": 4}]),
        default=[],
    )
    dtype: str = documented(
        "The number format of all values when the plan runs, and for bytes.",
        "float32",
        words=("float64", "float32"),
        default="float64",
    )
    imperfect: StrictBool = documented(
        "Whether ranks may be split unevenly: the last blocks are then short or empty.", False, default=True
    )


NAMED = ("placements", "loops", "overlap", "turns", "prefetch", "steps")
"""Fields that speak of tensors, ranks, Einsums and mesh axes."""
