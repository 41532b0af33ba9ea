"""Busy time of a component as the largest of a few linear forms of its reads and writes."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from einmap.arch.component import Component, Compute, Memory, Toll
from einmap.arrays import Floats
from einmap.model.timing.latency import busy_time


@dataclass(frozen=True, slots=True)
class Form:
    """`read` s for each read, `write` s for each write (of one instance, `actions_scale` applied to neither)."""

    read: float
    write: float

    def __add__(self, other: Form) -> Form:
        return Form(self.read + other.read, self.write + other.write)


def forms_of(component: Component, einsum: str) -> tuple[Form, ...] | None:
    """The forms whose maximum is the busy time, none where it is always 0, None where it is no such maximum.

    Without `total_latency` it is one sum, or one for each limit of the memory's ports. An expression is a sum or a
    maximum of its actions' times if it has these values on its axes and at many points of all magnitudes.
    """
    key = "forms", einsum
    if key not in component.known:
        component.known[key] = _forms_of(component, einsum)
    forms: tuple[Form, ...] | None = component.known[key]
    return forms


def _forms_of(component: Component, einsum: str) -> tuple[Form, ...] | None:
    if isinstance(component, Compute):
        return None
    if component.total_latency is None:
        times = [component.action(name).throughput for name in _used(component)]
        if 0 in times:
            return None
        seconds = [0.0 if math.isinf(t) else 1 / t for t in times]
        if not any(seconds):
            return ()
        read, write = seconds[0], sum(seconds[1:])
        if not isinstance(component, Memory) or component.ports is None:
            return (Form(read, write),)
        shares = component.ports.shares
        return tuple(Form(share.reads * read / share.at_once, share.writes * write / share.at_once) for share in shares)
    rng = np.random.default_rng(0)
    reads, writes = (10.0 ** rng.uniform(0, 16, 96) for _ in range(2))
    nothing = np.zeros_like(reads)
    try:
        of_all = np.concatenate([reads, nothing, reads, nothing]), np.concatenate([writes, nothing, nothing, writes])
        seconds_at = _probe(component, einsum, *of_all)
    except (ValueError, TypeError, ZeroDivisionError):
        return None
    times_at, at_nothing, of_reads, of_writes = seconds_at.reshape(4, -1)
    if float(np.max(np.abs(at_nothing))) > 0:
        return None
    per_read, per_write = of_reads / reads, of_writes / writes
    r, w = float(per_read[0]), float(per_write[0])
    if not (_close(per_read, r) and _close(per_write, w)) or r < 0 or w < 0:
        return None
    if _close(times_at, r * reads + w * writes):
        return () if not r and not w else (Form(r, w),)
    if _close(times_at, np.maximum(r * reads, w * writes)):
        return (Form(r, 0.0), Form(0.0, w))
    return None


def latency_is_linear(component: Memory | Toll, einsum: str) -> bool:
    """Whether the busy time of a component can be a few columns of cost."""
    return forms_of(component, einsum) is not None


def compute_seconds(unit: Compute, operations: Floats, einsum: str) -> Floats:
    """Busy time of the compute for so many operations of the busiest instance."""
    seconds = busy_time(unit, {"compute": operations * unit.actions_scale}, einsum)
    return np.broadcast_to(np.asarray(seconds, dtype=np.float64), operations.shape)


def _used(component: Component) -> tuple[str, ...]:
    return ("read",) if isinstance(component, Toll) else ("read", "write")


def _probe(component: Component, einsum: str, reads: np.ndarray, writes: np.ndarray) -> np.ndarray:
    value = busy_time(component, {"read": reads, "write": writes}, einsum)
    return np.broadcast_to(np.asarray(value, dtype=np.float64), reads.shape)


def _close(values: np.ndarray, expected: np.ndarray | float) -> bool:
    return bool(np.allclose(values, expected, rtol=1e-12, atol=0.0))
