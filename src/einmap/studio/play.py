"""A run of a small mapping, step by step: which tile is where, which values move, counters that end at the model's."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from einmap.arch.component import Memory
from einmap.errors import SpecError
from einmap.execute.execute import execute
from einmap.mapping.mapping import Mapping
from einmap.mapping.met_loops import loops_met
from einmap.mapping.nodes import Storage, format_address
from einmap.spec.spec import Spec
from einmap.visible import listed, visible

MOST_OPERATIONS = 2_000_000
MOST_VISITS = 10_000
"""Largest run that is played: operations, and visits of tiles."""
MOST_EVENTS = 20_000
"""Movements of tiles that the page is sent."""


def run_of(spec: Spec, mapping: Mapping) -> dict[str, Any]:
    """The run as plain data: its `frames` in the order of time.

    A frame has the `step` (operations before it), `tiles` that come into memories there, each with the first and last
    index of each rank, and `moves`: values that are read or written. Raises SpecError for a run that is too large.
    """
    _check_size(spec, mapping)
    memories = {n: u for e in mapping.path_of for n, u in spec.arch(e).components.items() if isinstance(u, Memory)}
    held = {p.node.component for p in mapping.placed if isinstance(p.node, Storage)}
    done = execute(spec.with_mapping(mapping), trace=[name for name in memories if name in held])
    if len(done.events) > MOST_EVENTS:
        raise SpecError(f"this run has {len(done.events):,} movements, more than {MOST_EVENTS:,}", hint=_sizes(spec))
    place = {p.address: p.node.component for p in mapping.placed if isinstance(p.node, Storage)}
    found: list[tuple[int, str, dict[str, Any]]] = []
    for visit in done.visits:
        for einsum, parts in visit.parts.items():
            for ranges in list(parts.values())[:1]:
                tile = {"at": format_address(visit.address), "memory": visible(place[visit.address])}
                told = {**tile, "tensor": visible(visit.tensor), "einsum": visible(einsum), "ranges": ranges}
                found.append((visit.step, "tiles", told))
    for event in done.events:
        name = {"memory": visible(event.component), "tensor": visible(event.tensor), "action": event.action}
        found.append((event.step, "moves", {**name, "count": event.count}))
    found.sort(key=lambda one: one[0])
    frames = [_frame(step, [one[1:] for one in group]) for step, group in groupby(found, key=lambda one: one[0])]
    shapes = {visible(tensor): list(values.shape) for tensor, values in {**done.inputs, **done.tensors}.items()}
    return {"kind": "run", "shapes": shapes, "frames": frames}


def _frame(step: int, found: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    return {"step": step} | {kind: [told for one, told in found if one == kind] for kind in ("tiles", "moves")}


def _sizes(spec: Spec) -> str:
    """Advice to take smaller sizes, with those of the largest Einsum."""
    largest = max(spec.workload.einsums, key=lambda einsum: einsum.n_computes)
    shown = listed(f"{visible(variable)} {extent:,}" for variable, extent in largest.extents.items())
    return f"take smaller sizes in the workload; here Einsum {visible(largest.name)} has {shown}"


def _check_size(spec: Spec, mapping: Mapping) -> None:
    operations = visits = 0
    for name, path in mapping.path_of.items():
        loops = {met.placed.address: met.iterations for met in loops_met(path, spec.workload.by_name[name])}
        trips = 1
        for placed in path:
            trips *= loops.get(placed.address, 1)
            visits += trips * len(placed.held)
        operations += trips
    for what, number, most in (("operations", operations, MOST_OPERATIONS), ("visits of tiles", visits, MOST_VISITS)):
        if number > most:
            raise SpecError(
                f"this run has {number:,} {what}, more than {most:,}: too many to look at", hint=_sizes(spec)
            )
