"""Input model of the distribution of a workload over a mesh."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StrictBool, StrictInt

from einmap.spec.schema.base import Input
from einmap.spec.schema.documented import documented, one_of

type AxisNames = str | list[str]


class RankSplitInput(Input):
    """A rank split over mesh axes in blocks of whole granules."""

    axes: Annotated[
        AxisNames, documented("The mesh axis, or several, the first of which is the slowest.", *("x", ["x", "y"]))
    ]
    granule: Annotated[
        StrictInt,
        documented(
            "How many coordinates stay together, the size of a head in a rank of all heads, say; it divides the rank.",
            16,
            unit="coordinates",
        ),
    ] = 1


class DistributionInput(Input):
    """The top-level key `distribution`: a mesh of processing elements (PEs), and where tensors lie on it."""

    mesh: Annotated[
        dict[str, Any],
        documented(
            "Axes of the mesh and how many PEs lie along each. PEs are numbered row-major, the last axis the fastest.",
            {"x": 2, "y": 4},
            unit="PEs",
            schema={"additionalProperties": {"type": "integer", "minimum": 1}},
        ),
    ]
    placements: Annotated[
        dict[str, str | dict[str, AxisNames | RankSplitInput] | None],
        documented(
            "Where tensors lie: for each, its ranks with the axes over which they are split, in contiguous blocks; "
            "`partial` with axes along which PEs hold addends; or the word `replicated`. Over axes that are not named, "
            "a tensor is replicated.",
            *({"A": {"K": "x"}, "Z": {"M": ["x", "y"]}}, {"W": "replicated", "P": {"partial": "x"}}),
            without="inputs are replicated, results complete, anything between lies as it is cheapest",
        ),
    ] = {}
    loops: Annotated[
        dict[str, dict[str, AxisNames]],
        documented(
            "How Einsums are spread: for each, rank variables with the axes over which PEs share their values.",
            {"Z": {"k": "x"}},
            without="derived: as few bytes are sent as possible",
        ),
    ] = {}
    overlap: Annotated[
        list[str],
        documented(
            "Einsums whose reduce-scatter goes in chunks, each on its way while the next one is computed.", ["Z"]
        ),
    ] = []
    dtype: Annotated[
        str,
        one_of(("float64", "float32")),
        documented("The number format of all values when the plan runs, and for bytes.", "float32"),
    ] = "float64"
    imperfect: Annotated[
        StrictBool,
        documented("Whether ranks may be split unevenly: the last blocks are then short or empty.", False),
    ] = True


NAMED = ("placements", "loops", "overlap")
"""Fields that speak of tensors, ranks, Einsums and mesh axes."""
