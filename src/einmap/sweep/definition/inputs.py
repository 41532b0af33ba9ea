"""Input models of a sweep file."""

from __future__ import annotations

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented

ACTIONS = ("map", "evaluate", "plan")
"""Actions at each point."""


class RangeInput(Input):
    """Numbers from `least` to `most`, both included."""

    least: Expression = documented("The first value.", 8, default=...)
    most: Expression = documented("No value is above it.", 64, default=...)
    step: Expression = documented("From one value to the next.", 8, default=1)


class PowersInput(Input):
    """Powers of two times `least`, up to `most`."""

    least: Expression = documented("The first value; each further one is twice the one before.", "32 * 8", default=...)
    most: Expression = documented("No value is above it.", "2**20 * 8", default=...)


class GeometricInput(Input):
    """Numbers from `least` to `most`, both included, each the same number of times the one before."""

    least: Expression = documented("The first value.", "32 * 8", default=...)
    most: Expression = documented("The last value.", "2**22 * 8", default=...)
    count: Expression = documented(
        "How many values; where `least` and `most` are integers, they are rounded to integers.", 32, default=...
    )


class AxisInput(Input):
    """One parameter and its values: a place in the specification, or a template variable."""

    name: str | None = documented("Its name in tables and in `where`.", "buffer")
    path: str | list[str] | None = documented(
        "Where the value goes; of several places each gets it.", "arch.GlobalBuffer.size"
    )
    variable: str | None = documented("The template variable that has the value.", "BITS")
    values: list[Expression] | None = documented("The values, one by one.", [8, 16, 32])
    range: RangeInput | None = documented("Equal steps.", {"least": 8, "most": 64, "step": 8})
    powers_of_two: PowersInput | None = documented(
        "Each value twice the one before.", {"least": "32 * 8", "most": "2**20"}
    )
    geometric: GeometricInput | None = documented(
        "Equal ratios.", {"least": "32 * 8", "most": "2**22 * 8", "count": 32}
    )
    linked_with: str | None = documented(
        "An axis above, of as many values: the two step together; else every value meets every one.", "rows"
    )


class SweptWorkloadInput(Input):
    """One of the workloads that every point is judged by."""

    name: str = documented("Its name in tables.", "conv2", default=...)
    files: list[str] = documented("Files or names of examples, beside `specs`.", ["resnet50_layer"], default=[])
    define: dict[str, Expression] = documented("Values of template variables.", {"LAYER": "conv2_2"}, default={})
    weight: Expression = documented("How often it runs; energies and latencies count so often.", 3, default=1)


class SweepInput(Input):
    """The top-level key `sweep`."""

    name: str | None = documented("Name of the sweep.", "buffers", without="that of the file")
    specs: list[str] = documented(
        "Files or names of examples that all points have, relative to the sweep file.", ["eyeriss"], default=...
    )
    define: dict[str, Expression] = documented("Values of template variables.", {"BITS": 16}, default={})
    axes: list[AxisInput] = documented(
        "The parameters.", [{"path": "arch.GlobalBuffer.size", "values": [512, 1024]}], default=...
    )
    where: str | list[str] = documented(
        "Conditions on the axes by their names; points that break one are left out.", "a < b", default=[]
    )
    workloads: list[SweptWorkloadInput] = documented(
        "What runs at each point.", [{"name": "conv2"}], without="the workload in `specs`, once", default=[]
    )
    action: str = documented(
        "`map`: search the best mapping; `evaluate`: take the one in the specification; `plan`: search the best "
        "distribution over a mesh.",
        "map",
        words=ACTIONS,
        default="map",
    )
    metric: str | None = documented(
        "What each mapping or plan is searched for, as `--metrics` of `einmap map` and `einmap plan`.",
        "energy",
        without="energy_delay_product, or the time of a plan",
    )
    mesh: dict[str, Expression] = documented(
        "Of the action `plan`: axes of the mesh with their PEs; `distribution.mesh.x` is a path to one.",
        {"x": 8},
        default={},
    )
    objectives: list[str] | None = documented(
        "What points are judged by; those that none beats are the front.",
        ["energy", "area"],
        without="energy and latency, or latency and peak_memory of plans",
    )
    limits: dict[str, Expression] = documented(
        "Objectives that a point must not exceed, in J, s, m^2 or bytes; beyond one it is ruled out, without a search "
        "where its area or a bound says so.",
        {"area": "10e-6"},
        default={},
    )
    semantics: str | None = documented("Counting rules.", "exact", without="model.semantics, or exact")
    fuse: bool = documented("Whether intermediate tensors may stay inside.", False, default=True)
    options: dict[str, Expression] = documented(
        "Options of the mapper by their names.", {"max_fused_loops": 1}, default={}
    )
    time_limit: Expression | None = documented(
        "Time for each specification; a search gives the best so far then.", 60, unit="s", without="none"
    )
