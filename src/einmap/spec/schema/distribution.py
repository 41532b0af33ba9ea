"""Input model of the distribution of a workload over a mesh."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool, StrictInt

from einmap.spec.schema.base import Input

type AxisNames = str | list[str]


class RankSplitInput(Input):
    """A rank split over mesh axes in blocks of whole granules."""

    axes: AxisNames
    granule: StrictInt = 1


class DistributionInput(Input):
    """The top-level key `distribution`. What is in NAMED is checked where the workload is known."""

    mesh: Annotated[
        dict[str, Any],
        Field(
            description="axes and their sizes, for example {x: 4}",
            json_schema_extra={"additionalProperties": {"type": "integer", "minimum": 1}},
        ),
    ]
    placements: Annotated[
        dict[str, str | dict[str, AxisNames | RankSplitInput] | None],
        Field(description="for example A: {K: x}, Z: {M: [x, y]}, W: replicated, P: {partial: x}"),
    ] = {}
    loops: Annotated[
        dict[str, dict[str, AxisNames]],
        Field(description="how an Einsum is spread, for example Z: {k: x}; otherwise it is derived"),
    ] = {}
    overlap: list[str] = []
    dtype: Annotated[str, Field(json_schema_extra={"enum": ["float64", "float32"]})] = "float64"
    imperfect: StrictBool = True


NAMED = ("placements", "loops", "overlap")
"""Fields that speak of tensors, ranks, Einsums and mesh axes."""
