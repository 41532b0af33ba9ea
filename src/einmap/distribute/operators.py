"""Seconds of the operators of a step of a model on a cluster, as serving runs them, one kernel after another.

Rates, launches and links are those by which plans are costed (`costs.cluster`): an operator is work for a
`ProcessingElement`, or a collective.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from einmap.distribute.costs.cluster import Cluster, ProcessingElement
from einmap.distribute.plans.collectives import Kind
from einmap.distribute.training.machine import machine_of
from einmap.distribute.training.plan import DIMS
from einmap.errors import SpecError
from einmap.visible import brief


@dataclass(frozen=True, slots=True)
class Work:
    """A kernel on one device: its operations, the bytes that it moves, bits of its values; `attends`: whether it is
    attention that keeps its scores on the chip; `again`: bytes that it reads once more, from the cache; `row`: bytes
    of the values that a product sums for one result, 0 for other kernels.
    """

    operations: float
    moved: float
    bits: float
    attends: bool = False
    again: float = 0.0
    row: float = 0.0

    @property
    def works(self) -> tuple[Work, ...]:
        """The kernel itself, as an operator of one."""
        return (self,)

    def seconds(self, pe: ProcessingElement) -> float:
        """Time on one device."""
        kernel = pe.attention if self.attends else None
        return pe.seconds(self.operations, self.moved, self.bits, kernel, again=self.again, row=self.row)


class _Kernels:
    """An operator of one kernel or several, one after another."""

    @property
    def works(self) -> tuple[Work, ...]:
        """Kernels of the operator in order."""
        raise NotImplementedError

    def seconds(self, pe: ProcessingElement) -> float:
        """Time on one device."""
        return sum(work.seconds(pe) for work in self.works)


@dataclass(frozen=True)
class Product(_Kernels):
    """`batch` products of [m, k] and [k, n] on one device: m rows of activations, [k, n] weights.

    `bits`: of the values that are multiplied; `weight_bits`: of weights as they are read, None: `bits`; `result_bits`:
    of results; `cast_from`: bits of activations that a kernel of its own casts to `bits` first, None: none.
    Raises SpecError for sizes and bits that are not positive.
    """

    __repr__ = brief

    m: int
    n: int
    k: int
    bits: float = 16
    weight_bits: float | None = None
    result_bits: float = 16
    batch: int = 1
    cast_from: float | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "m", "n", "k", "bits", "weight_bits", "result_bits", "batch", "cast_from")

    @property
    def works(self) -> tuple[Work, ...]:
        """The product, and the cast."""
        weight_bits = self.bits if self.weight_bits is None else self.weight_bits
        moved = self.m * self.k * self.bits + self.k * self.n * weight_bits + self.m * self.n * self.result_bits
        operations = 2.0 * self.batch * self.m * self.n * self.k
        product = Work(operations, self.batch * moved / 8, self.bits, row=self.k * self.bits / 8)
        if self.cast_from is None:
            return (product,)
        return product, Work(0.0, self.batch * self.m * self.k * (self.cast_from + self.bits) / 8, self.cast_from)


@dataclass(frozen=True)
class Attention(_Kernels):
    """Fused attention of `sequences` on one device: queries of `heads` heads at `queries` new positions, keys and
    values of `kv_heads` heads at `context` positions, the new ones among them; a query sees none after its own.

    `width`: of a head's keys, `value_width`: of its values, None: `width`; `bits`: of cached keys and values,
    `query_bits` of queries and results. With a sliding window, `context` is what is left in it.
    Raises SpecError for what is not positive, and more new positions than there are.
    """

    __repr__ = brief

    sequences: int
    heads: int
    kv_heads: int
    context: float
    width: int = 128
    value_width: int | None = None
    queries: int = 1
    bits: float = 16
    query_bits: float = 16

    def __post_init__(self) -> None:
        _check_positive(
            self, "sequences", "heads", "kv_heads", "context", "width", "value_width", "queries", "bits", "query_bits"
        )
        if self.queries > self.context:
            raise SpecError(f"{self.queries} new positions are not among {self.context:g} of the context")

    @property
    def works(self) -> tuple[Work, ...]:
        """One kernel."""
        widths = self.width + (self.width if self.value_width is None else self.value_width)
        seen = self.context - (self.queries - 1) / 2
        operations = 2.0 * self.sequences * self.heads * self.queries * seen * widths
        cached = self.kv_heads * self.context * self.bits
        moved = self.sequences * widths * (cached + self.heads * self.queries * self.query_bits) / 8
        return (Work(operations, moved, self.query_bits, attends=True),)


@dataclass(frozen=True)
class Pointwise(_Kernels):
    """A kernel that reads and writes `moved` bytes on one device: norm, activation, rotary embedding, cast, look-up.

    `again`: bytes of rows that it reads once more, each time it does: they are in the cache. Raises SpecError for bytes
    that are not positive.
    """

    __repr__ = brief

    moved: float
    again: float | None = None

    def __post_init__(self) -> None:
        _check_positive(self, "moved", "again")

    @property
    def works(self) -> tuple[Work, ...]:
        """One kernel."""
        return (Work(0.0, self.moved, 16, again=self.again or 0.0),)


@dataclass(frozen=True)
class Exchange:
    """A collective among groups of `devices` that lie next to one another; `moved`: bytes of the larger of a device's
    operand and result, for an all-reduce those of the tensor. One device exchanges nothing.
    """

    __repr__ = brief

    moved: float
    devices: int
    kind: Kind = "all_reduce"

    def __post_init__(self) -> None:
        _check_positive(self, "moved", "devices")


type Operator = Product | Attention | Pointwise | Exchange


def operator_seconds(cluster: Cluster, operator: Operator) -> float:
    """Time of one operator: of its kernels, launches included, or of its collective, on the links of the fastest axes.

    Raises SpecError where a cluster has not so many devices, or its PEs have an architecture instead of rates.
    """
    if isinstance(operator, Exchange):
        machine = machine_of(cluster, tuple(operator.devices if dim == "tp" else 1 for dim in DIMS))
        return machine.seconds(operator.kind, ("tp",), operator.moved)
    if cluster.pe.arch is not None:
        raise SpecError("PEs of the cluster have an architecture: its mapper costs Einsums, not operators")
    return operator.seconds(cluster.pe)


def step_seconds(cluster: Cluster, operators: Iterable[tuple[Operator, float]]) -> float:
    """Time of a step that runs operators one after another, each so many times: no overlap, no host between them.

    One decode step of a dense decoder on each of `tp` devices, for B sequences, is for each of its layers `Product(B,
    n, k)` for queries, keys and values in one, output, gate and up in one, and down, `Attention`, `Pointwise` for
    norms, rotary embedding and activation, two `Exchange(B * hidden * 2, tp)`; and once the last norm and the head.
    """
    return math.fsum(operator_seconds(cluster, operator) * times for operator, times in operators)


def _check_positive(value: object, *names: str) -> None:
    for name in names:
        number = getattr(value, name)
        if number is not None and not 0 < number < math.inf:
            raise SpecError(f"{name} of {type(value).__name__} is {number!r}; expected more than 0, finite")
