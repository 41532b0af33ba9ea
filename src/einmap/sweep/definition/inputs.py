"""Input models of a sweep file."""

from __future__ import annotations

from typing import Annotated

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented, one_of

ACTIONS = ("map", "evaluate", "plan")
"""What may be done at each point."""


class RangeInput(Input):
    """Numbers from `least` to `most`, both included."""

    least: Annotated[Expression, documented("The first value.", 8)]
    most: Annotated[Expression, documented("No value is above it.", 64)]
    step: Annotated[Expression, documented("From one value to the next.", 8)] = 1


class PowersInput(Input):
    """Powers of two times `least`, up to `most`."""

    least: Annotated[Expression, documented("The first value; each further one is twice the one before.", "32 * 8")]
    most: Annotated[Expression, documented("No value is above it.", "2**20 * 8")]


class GeometricInput(Input):
    """Numbers from `least` to `most`, both included, each the same number of times the one before."""

    least: Annotated[Expression, documented("The first value.", "32 * 8")]
    most: Annotated[Expression, documented("The last value.", "2**22 * 8")]
    count: Annotated[
        Expression,
        documented("How many values; where `least` and `most` are integers, they are rounded to integers.", 32),
    ]


class AxisInput(Input):
    """One parameter and its values: a place in the specification, or a template variable."""

    name: Annotated[str | None, documented("Its name in tables and in `where`.", "buffer")] = None
    path: Annotated[
        str | list[str] | None,
        documented("Where the value goes; of several places each gets it.", "arch.GlobalBuffer.size"),
    ] = None
    variable: Annotated[str | None, documented("The template variable that has the value.", "BITS")] = None
    values: Annotated[list[Expression] | None, documented("The values, one by one.", [8, 16, 32])] = None
    range: Annotated[RangeInput | None, documented("Equal steps.", {"least": 8, "most": 64, "step": 8})] = None
    powers_of_two: Annotated[
        PowersInput | None, documented("Each value twice the one before.", {"least": "32 * 8", "most": "2**20"})
    ] = None
    geometric: Annotated[
        GeometricInput | None,
        documented("Equal ratios.", {"least": "32 * 8", "most": "2**22 * 8", "count": 32}),
    ] = None
    linked_with: Annotated[
        str | None,
        documented(
            "An axis above, of as many values: the two step together; else every value meets every one.", "rows"
        ),
    ] = None


class SweptWorkloadInput(Input):
    """One of the workloads that every point is judged by."""

    name: Annotated[str, documented("Its name in tables.", "conv2")]
    files: Annotated[list[str], documented("Files or names of examples, beside `specs`.", ["resnet50_layer"])] = []
    define: Annotated[dict[str, Expression], documented("Values of template variables.", {"LAYER": "conv2_2"})] = {}
    weight: Annotated[Expression, documented("How often it runs; energies and latencies count so often.", 3)] = 1


class SweepInput(Input):
    """The top-level key `sweep`."""

    name: Annotated[str | None, documented("Name of the sweep.", "buffers", without="that of the file")] = None
    specs: Annotated[
        list[str],
        documented("Files or names of examples that all points have, relative to the sweep file.", ["eyeriss"]),
    ]
    define: Annotated[dict[str, Expression], documented("Values of template variables.", {"BITS": 16})] = {}
    axes: Annotated[
        list[AxisInput], documented("The parameters.", [{"path": "arch.GlobalBuffer.size", "values": [512, 1024]}])
    ]
    where: Annotated[
        str | list[str],
        documented("Conditions on the axes by their names; points that break one are left out.", "a < b"),
    ] = []
    workloads: Annotated[
        list[SweptWorkloadInput],
        documented("What runs at each point.", [{"name": "conv2"}], without="the workload in `specs`, once"),
    ] = []
    action: Annotated[
        str,
        documented(
            "`map`: search the best mapping; `evaluate`: take the one in the specification; `plan`: search the best "
            "distribution over a mesh.",
            "map",
        ),
        one_of(ACTIONS),
    ] = "map"
    metric: Annotated[
        str | None,
        documented(
            "What each mapping or plan is searched for, as `--metrics` of `einmap map` and `einmap plan`.",
            "energy",
            without="energy_delay_product, or the time of a plan",
        ),
    ] = None
    mesh: Annotated[
        dict[str, Expression],
        documented(
            "Of the action `plan`: axes of the mesh with their PEs; `distribution.mesh.x` is a path to one.", {"x": 8}
        ),
    ] = {}
    objectives: Annotated[
        list[str] | None,
        documented(
            "What points are judged by; those that none beats are the front.",
            ["energy", "area"],
            without="energy and latency, or latency and peak_memory of plans",
        ),
    ] = None
    limits: Annotated[
        dict[str, Expression],
        documented(
            "Objectives that a point must not exceed, in J, s, m^2 or bytes; beyond one it is ruled out, without a "
            "search where its area or a bound says so.",
            {"area": "10e-6"},
        ),
    ] = {}
    semantics: Annotated[str | None, documented("Counting rules.", "exact", without="model.semantics, or exact")] = None
    fuse: Annotated[bool, documented("Whether intermediate tensors may stay inside.", False)] = True
    options: Annotated[
        dict[str, Expression], documented("Options of the mapper by their names.", {"max_fused_loops": 1})
    ] = {}
    time_limit: Annotated[
        Expression | None,
        documented("Time for each specification; a search gives the best so far then.", 60, unit="s", without="none"),
    ] = None
