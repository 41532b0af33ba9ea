"""A machine with fewer lanes that costs no more: the outer ones are one lane that does as much as all of them.

Whatever lanes hold, the one lane holds: it is as large as they are together, and as fast as all of them. What they hold
twice it has once, and what is sent to each of them comes once. So it bounds a machine that has too many uses of its
fanouts to look at each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from einmap.arch.component import Action, Compute, Container, Leaf, Memory, Power
from einmap.arch.ports import Ports
from einmap.arch.tree import Architecture, own_fanout
from einmap.mapper.mapspace.latency_forms import Form, forms_of

TWO_PORTS = Ports(read=1, write=1, read_write=0)


def with_merged_lanes(arch: Architecture, unit: str, level: int, einsum: str) -> Architecture | None:
    """The machine with the fanouts of a path to a compute down to a level merged; None where that may cost more.

    Its lanes further in may be used less than `min_usage` says.
    """
    lanes = 1
    for number, leaf in enumerate(arch.path(unit)):
        merged = number <= level
        lanes *= own_fanout(leaf) if merged else 1
        if any(dimension.power_gateable or dimension.skew != "none" for dimension in leaf.spatial):
            return None
        dimensions = () if merged else tuple(replace(dimension, min_usage=0) for dimension in leaf.spatial)
        faster = _times(replace(leaf, spatial=dimensions), lanes, einsum)
        if faster is None:
            return None
        arch = arch.with_leaf(faster)
    return arch


def _times(leaf: Leaf, lanes: int, einsum: str) -> Leaf | None:
    """A leaf that does as much as so many; None where it is not known how."""
    match leaf:
        case Container():
            return leaf
        case Compute() if leaf.total_latency is None:
            return replace(leaf, actions=_faster(leaf.actions, lanes), powers=_powers(leaf, lanes))
        case Memory() if not (leaf.is_spread or leaf.starts or leaf.layout or leaf.wind_up or leaf.stalls != "average"):
            larger = replace(leaf, size_bits=leaf.size_bits * lanes, powers=_powers(leaf, lanes))
            if leaf.total_latency is None:
                return replace(larger, actions=_faster(leaf.actions, lanes))
            forms = forms_of(leaf, einsum)
            return None if forms is None else _timed(larger, forms, lanes)
    return None


def _timed(memory: Memory, forms: Sequence[Form], lanes: int) -> Memory:
    """A memory with actions that take as long as its `total_latency` says."""
    seconds = {
        "read": max((form.read for form in forms), default=0.0),
        "write": max((form.write for form in forms), default=0.0),
    }
    actions = tuple(
        replace(action, throughput=lanes / seconds[action.name] if seconds.get(action.name) else math.inf)
        for action in memory.actions
    )
    return replace(memory, actions=actions, total_latency=None, ports=TWO_PORTS if len(forms) > 1 else None)


def _faster(actions: tuple[Action, ...], lanes: int) -> tuple[Action, ...]:
    return tuple(replace(action, throughput=action.throughput * lanes) for action in actions)


def _powers(leaf: Memory | Compute, lanes: int) -> tuple[Power, ...]:
    return tuple(replace(power, watts=power.watts * lanes) for power in leaf.powers)
