"""Input models of the cluster that a distribution is planned for."""

from __future__ import annotations

from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented

TOPOLOGIES = ("ring", "tree", "torus", "switch", "all_to_all")


class KernelInput(Input):
    """Parts of the rates of a processing element that one kind of kernel reaches."""

    launch: Expression = documented("Time that it takes beside its work.", "9e-6", unit="s", default=0)
    efficiency: dict[int | float | str, Expression] = documented(
        "Which part of the peak is reached, by the operations of a kernel; in between time grows linearly.",
        {"1e9": 0.2, "100e9": 0.5},
        default={},
    )
    memory_efficiency: dict[int | float | str, Expression] = documented(
        "Which part of the bandwidth of the memory is reached, by the bytes that a kernel reads and writes; in between "
        "time grows linearly.",
        {"1e6": 0.3, "100e6": 0.8},
        default={},
    )


class ProcessingElementInput(Input):
    """A processing element (PE) of the cluster."""

    peak: dict[str, Expression] = documented(
        "Operations by the data type of the values. An Einsum takes the narrowest type that holds the widest of its "
        "tensors; a product that is summed is two operations. Needed where there is no `arch`.",
        {"bf16": "312e12", "fp32": "19.5e12"},
        unit="operations/s",
        default={},
    )
    arch: str | None = documented(
        "A specification with the key `arch`, a file beside this one or a shipped one: its mapper costs what a PE "
        "computes, in the place of all other fields of a PE but `memory`.",
        "tpu_v4i",
        without="`peak` says what a PE computes",
    )
    memory: Expression = documented(
        "Room of the memory of a PE, which no plan exceeds.",
        "80 * 2**30",
        unit="bytes",
        without="without limit, or with `arch` the size of its outermost memory",
        default="inf",
    )
    memory_bandwidth: Expression = documented(
        "How fast operands are read and results are written.", "2.0e12", unit="bytes/s", default="inf"
    )
    cache_bandwidth: Expression = documented(
        "How fast operators of a step read once more what is in the last cache.",
        "5120 * 1.41e9",
        unit="bytes/s",
        default="inf",
    )
    launch: Expression = documented(
        "Time that each Einsum takes beside its work, as a GPU does to start and drain a kernel.",
        "5e-6",
        unit="s",
        default=0,
    )
    dispatch: Expression = documented(
        "Time that an Einsum takes at least, as a host does that launches kernels one by one.",
        "50e-6",
        unit="s",
        default=0,
    )
    exposed: Expression = documented(
        "Which part of the shorter one of computing and of reading and writing is not hidden by the longer one; 1: "
        "their times are added.",
        0.2,
        default=0,
    )
    pipeline: Expression = documented(
        "Operators of a step: products that sum so many bytes of a row, or fewer, compute nothing while they move.",
        256,
        unit="bytes",
        default=0,
    )
    efficiency: dict[int | float | str, Expression] = documented(
        "Which part of the peak is reached, by the operations of an Einsum; in between time grows linearly.",
        {"1e9": 0.3, "100e9": 0.8},
        default={},
    )
    memory_efficiency: dict[int | float | str, Expression] = documented(
        "Which part of the bandwidth of the memory is reached, by the bytes that an Einsum reads and writes; in "
        "between time grows linearly.",
        {"1e6": 0.3, "100e6": 0.8},
        default={},
    )
    kernels: dict[str, KernelInput] = documented(
        "The three fields with these names, of some kinds of kernels: of Einsums on values of at most the width of a "
        "data type, or of `attention` that keeps its scores on the chip, where operators of a step are timed.",
        {"fp8": {"launch": "3e-6", "efficiency": {"1e9": 0.3, "1e12": 0.7}}, "attention": {"launch": "9e-6"}},
        default={},
    )
    energy_per_operation: Expression = documented("Energy of one operation.", "0.5e-12", unit="J", default=0)
    energy_per_bit: Expression = documented(
        "Energy of one bit that is read or written in the memory.", "4e-12", unit="J", default=0
    )


class LinkInput(Input):
    """The links along one axis of the mesh."""

    bandwidth: Expression = documented("What one PE sends, in a torus each way.", "300e9", unit="bytes/s", default=...)
    latency: Expression = documented("Time of one message beside its bytes.", "10e-6", unit="s", default=0)
    topology: str = documented(
        "How the PEs along the axis are connected. A collective over several axes goes along one after another; those "
        "of a `torus` may be used at once, both ways.",
        "switch",
        words=TOPOLOGIES,
        default="ring",
    )
    efficiency: dict[int | float | str, Expression] = documented(
        "Which part of the bandwidth is reached, by the bytes that a PE sends in a collective; in between time grows "
        "linearly.",
        {1024: 0.1, 1048576: 0.6, 16777216: 0.9},
        default={},
    )
    groups: dict[int, dict[int | float | str, Expression]] = documented(
        "`efficiency` of collectives among so many PEs, where it differs; the smallest group first.",
        {2: {65536: 0.3, 16777216: 0.8}, 4: {65536: 0.2, 16777216: 0.8}},
        default={},
    )
    size: Expression | None = documented(
        "How many PEs lie along the axis at most.", 8, unit="PEs", without="any number"
    )
    energy_per_bit: Expression = documented(
        "Energy of one bit that a PE sends or passes on.", "10e-12", unit="J", default=0
    )
    shared_by: list[str] = documented(
        "Axes whose PEs share one such link, as the PEs of a node share its network card: PEs that send at once "
        "divide its bandwidth.",
        ["x"],
        default=[],
    )


class ClusterInput(Input):
    """The top-level key `cluster`: what a PE can do, and the links along each axis of a mesh."""

    pe: ProcessingElementInput = documented(
        "What every PE can do.", {"peak": {"bf16": "312e12"}, "memory": "80 * 2**30"}, default=...
    )
    axes: dict[str, LinkInput] = documented(
        "The links along each axis of the mesh; a mesh uses some of these axes.",
        {"x": {"bandwidth": "300e9", "latency": "10e-6", "topology": "switch", "size": 8}},
        default=...,
    )
