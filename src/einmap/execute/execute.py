"""execute(): run a mapping on real tensors through explicit buffers, and count what moves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate, chain
from operator import mul
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Component, Memory, Network
from einmap.einsum.numeric import random_inputs, shapes
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError, did_you_mean
from einmap.execute.recorder import Recorder
from einmap.execute.results.occupancy import Occupancy
from einmap.execute.results.result import ChildKey, CountKey, CountRow, Execution, SpanRow
from einmap.execute.results.timeline import Timeline
from einmap.execute.simulator import Simulator
from einmap.execute.tiles.buffers import Heap, Tile
from einmap.execute.tiles.padding import paddings
from einmap.execute.zeros.actions import zero_rows, zero_steps
from einmap.execute.zeros.begin import zeros_of
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.pipelines import refuse_sliding
from einmap.mapping.validate import validate
from einmap.schedule.boxes import Box
from einmap.schedule.copies import check_copies
from einmap.schedule.routes import Instance, Route, ranks_of, routes_of
from einmap.schedule.schedule import schedule_of
from einmap.schedule.spaces import mask_size, reaches_of
from einmap.spec.spec import Spec

MAX_OPERATIONS = 2_000_000_000
MAX_VISITS = 3_000_000
MAX_VALUES = 400_000_000
"""Largest run that is started without `force`: operations (and iterations), tile visits, values in memory."""
_COUNTED = 10**24
"""Numbers above are told as this one: a thousand uneven loops multiply to more than a float holds."""


def execute(
    spec: Spec,
    data: Mapping[str, NDArray[np.float64]] | None = None,
    seed: int = 0,
    *,
    mapping: LoopTree | None = None,
    trace: Sequence[str] = (),
    timeline: int = 0,
    force: bool = False,
) -> Execution:
    """Run the mapping of a specification on `data` (graph inputs by name; default: random, from `seed`).

    Buffers, fills, write-backs, lanes and lifetimes are those of the `exact` semantics. `trace`: components whose
    events, and the visits of whose storage nodes, are recorded. `timeline`: record all actions in the order of time,
    with about so many pairs of action and instance at most; neighbouring visits are joined where there are more.
    `force`: start also what may take very long.

    Raises SpecError for tensors of the wrong shape or type and for problems that are too large, MappingError for an
    invalid mapping or when a value is read that is not there.
    """
    if mapping is not None:
        spec = spec.with_mapping(mapping)
    tree = spec.mapping
    if tree is None:
        raise SpecError("no mapping given; add `mapping:` to the specification or pass one")
    workload = spec.workload
    archs = spec.archs
    validate(tree, workload, archs, spec.place_of_node, [e.name for e in workload.einsums])
    for name in trace:
        if name not in spec.arch().components:
            hint = did_you_mean(name, spec.arch().components, listing="components")
            raise SpecError(f"no component {name!r} to trace", hint=hint)
        if isinstance(spec.arch().components[name], Network):
            raise NotSupportedError(f"events of the network {name!r} cannot be traced yet, only its counts")
    routes = routes_of(tree, workload, archs)
    if not force:
        _refuse_large(workload, routes)
    check_copies(spec)
    inputs = _inputs(workload, data, seed)
    heap = Heap()
    ranks = ranks_of(workload)
    zeros = zeros_of(spec, routes, inputs if data is not None else {}, seed)
    if zeros is not None:
        inputs = {t: np.where(zeros.masks[t], value, 0.0) if t in zeros.masks else value for t, value in inputs.items()}
    reaches = reaches_of(workload, ranks)
    store = {tensor: _stored(heap, reach, inputs.get(tensor)) for tensor, reach in reaches.items()}
    recorder = Recorder(frozenset(trace), zeros=zeros, timeline=Timeline(timeline) if timeline else None)
    occupancy = Occupancy(_bits(routes))
    schedule = schedule_of(tree, workload, routes, spec.model_options.sliding_window)
    slides = [(node, loop) for (node, _), loop in schedule.sliding.items()]
    refuse_sliding(schedule.pipelines.values(), slides, spec.place_of_node)
    Simulator(schedule, store, heap, recorder, occupancy, paddings(workload, reaches, ranks)).run()
    return _result(spec, routes, store, inputs, recorder, occupancy)


def _refuse_large(workload: Workload, routes: Mapping[str, Route]) -> None:
    """Raise SpecError for a run that is beyond the limits: its work is known before anything is allocated."""
    operations = sum(math.prod(n for _, n in e.bounds) for e in workload.einsums)
    values = sum(math.prod(shape) for shape in shapes(workload).values())
    visits, iterations, entries = 0, 0, 0
    for route in routes.values():
        last = max(h.position for holds in route.holds.values() for h in holds if isinstance(h.component, Memory))
        outside = [t for t in route.turns if t.position < last or t.level is not None]
        # every loop counts: a hundred loops of one iteration each take their time, too
        visits += sum(accumulate((route.iterations[t.address] for t in outside), mul, initial=1))
        # uneven tile shapes make iterations without a point, which the kernel steps through all the same
        iterations += math.prod(route.iterations.values())
        entries += sum(route.table_sizes.values()) + mask_size(route.einsum)
    steps = min(max(operations, iterations), _COUNTED)
    for noun, amount, limit in (
        ("operations", operations, MAX_OPERATIONS),
        ("tile visits", visits, MAX_VISITS),
        ("iterations of loops", iterations, MAX_OPERATIONS),
        ("values", values, MAX_VALUES),
        ("entries in tables of indices", entries, MAX_VALUES),
    ):
        if amount > limit:
            seconds = steps / 2e7 + min(visits, _COUNTED) / 5e3
            duration = f"{seconds:,.0f}" if seconds < 1e9 else f"{seconds:.2g}"
            size = min(values * 20 + entries * 8, _COUNTED) / 1e9
            memory = f"{size:,.1f}" if size < 1e9 else f"{size:.2g}"
            raise SpecError(
                f"too large to execute: {min(amount, _COUNTED):.2g} {noun} (limit {limit:.2g}); "
                f"it would take about {duration} s and {memory} GB",
                hint="reduce the rank sizes, or force it (--force)",
            )


def _inputs(
    workload: Workload, data: Mapping[str, NDArray[np.float64]] | None, seed: int
) -> dict[str, NDArray[np.float64]]:
    if data is None:
        return random_inputs(workload, seed)
    graph_inputs = {t: s for t, s in shapes(workload).items() if t not in workload.producers}
    for name in data:
        if name not in graph_inputs:
            hint = did_you_mean(name, graph_inputs, listing="graph inputs")
            raise SpecError(f"{name!r} is not a graph input of the workload", hint=hint)
    tensors = {}
    for tensor, shape in graph_inputs.items():
        if tensor not in data:
            raise SpecError(f"no data for the graph input {tensor!r}", hint=f"its shape is {shape}")
        tensors[tensor] = _checked(tensor, data[tensor], shape)
    return tensors


def _checked(tensor: str, value: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise SpecError(f"data of {tensor!r} must be real numbers, found {array.dtype}")
    if array.shape != shape:
        raise SpecError(f"data of {tensor!r} has shape {array.shape}, expected {shape}")
    return array.astype(np.float64)


def _stored(heap: Heap, reach: Box, value: NDArray[np.float64] | None) -> Tile:
    tile = Tile(heap, reach)
    if value is not None:
        whole = tuple((0, n) for n in value.shape)
        tile.values(whole)[...] = value
        tile.present(whole)[...] = 1
    return tile


def _bits(routes: Mapping[str, Route]) -> dict[tuple[str, str, str], float]:
    bits = {}
    for name, route in routes.items():
        for tensor, holds in route.holds.items():
            for hold in holds:
                if isinstance(hold.component, Memory):
                    bits[name, hold.component.name, tensor] = hold.component.bits[tensor]
    return bits


def _result(
    spec: Spec,
    routes: Mapping[str, Route],
    store: Mapping[str, Tile],
    inputs: Mapping[str, NDArray[np.float64]],
    recorder: Recorder,
    occupancy: Occupancy,
) -> Execution:
    rows: list[CountRow] = []
    per_instance: dict[CountKey, dict[Instance, float]] = {}
    calls: dict[tuple[str, str, str], dict[Instance, float]] = {}
    for key, counts in chain(recorder.values.items(), recorder.hops()):
        einsum, component, tensor, action = key
        route = routes[einsum]
        rate = _rate(route.arch.components[component], tensor, action)
        per_instance[key] = {instance: n * rate for instance, n in counts.items()}
        instances = spec.workload.n_instances * route.einsum.n_instances
        rows.append(CountRow(einsum, component, tensor, action, sum(counts.values()) * instances * rate))
        busy = calls.setdefault((einsum, component, action), {})
        for instance, n in per_instance[key].items():
            busy[instance] = busy.get(instance, 0.0) + n
    wires = recorder.wires
    steps = _steps(recorder, routes)
    zeros = None if recorder.zeros is None else recorder.zeros.result()
    if zeros is not None and any(sparsity.saves for sparsity in spec.sparsity.values()):
        rows = list(zero_rows(spec, routes, zeros))
        steps = {name: zero_steps(name, route.unit.name, zeros) for name, route in routes.items()}
    written = {t: _whole(store[t], shape) for t, shape in shapes(spec.workload, spec.workload.producers).items()}
    busiest = {key: max(by_instance.values()) for key, by_instance in calls.items()}
    return Execution(
        written,
        inputs,
        tuple(rows),
        per_instance,
        _usage(spec, routes, occupancy),
        tuple(occupancy.rows),
        steps,
        busiest,
        tuple(recorder.events),
        tuple(recorder.visits),
        recorder.exchanges,
        tuple(life.row() for life in occupancy.lives.values()),
        occupancy.fullest,
        occupancy.moments,
        {(e, n): wires.busiest_link(e, n) for e, n in wires.longest},
        wires.longest,
        _spans(recorder, routes),
        _actions_of(recorder.by_child, routes),
        recorder.transfers,
        _actions_of(recorder.first, routes),
        recorder.first_transfers,
        {turn: _in_actions(values, routes) for turn, values in recorder.turns.items()},
        _rounds(recorder, routes),
        _actions_of(recorder.rounds_by_child, routes),
        wires.loads,
        wires.first,
        wires.routes,
        zeros,
    )


def _steps(recorder: Recorder, routes: Mapping[str, Route]) -> dict[str, int]:
    """Operations of the busiest compute of each Einsum."""
    return {
        name: int(max(recorder.values.get((name, route.unit.name, None, "compute"), {}).values(), default=0))
        for name, route in routes.items()
    }


def _usage(spec: Spec, routes: Mapping[str, Route], occupancy: Occupancy) -> dict[str, float]:
    """The largest part of each memory that is in use at one time."""
    usage = {}
    for name, unit in spec.arch().components.items():
        if isinstance(unit, Memory):
            bits = occupancy.peak.get(name, 0.0)
            size = max(m.size_bits for r in routes.values() if isinstance(m := r.arch.components[name], Memory))
            usage[name] = 0.0 if math.isinf(size) or not bits else bits / size
    return usage


def _rounds(recorder: Recorder, routes: Mapping[str, Route]) -> dict[tuple[str, str, str], float]:
    """By Einsum, memory with interleaved banks and action, those of the busiest instance that come one by one."""
    found: dict[tuple[str, str, str], dict[Instance, float]] = {}
    for key, counts in recorder.values.items():
        einsum, name, tensor, action = key
        unit = routes[einsum].arch.components[name]
        if isinstance(unit, Memory) and unit.interleaved:
            busy = found.setdefault((einsum, name, action), {})
            for instance, n in recorder.rounds.get(key, counts).items():
                busy[instance] = busy.get(instance, 0.0) + n * _rate(unit, tensor, action)
    return {key: max(busy.values()) for key, busy in found.items()}


def _in_actions(
    values: Mapping[CountKey, Mapping[Instance, float]], routes: Mapping[str, Route]
) -> dict[CountKey, dict[Instance, float]]:
    """Values by key and instance as actions, `actions_scale` included."""
    return {
        key: {at: n * _rate(routes[key[0]].arch.components[key[1]], key[2], key[3]) for at, n in counts.items()}
        for key, counts in values.items()
    }


def _actions_of(
    values: Mapping[ChildKey, Mapping[Instance, float]], routes: Mapping[str, Route]
) -> dict[ChildKey, dict[Instance, float]]:
    """Values of exchanges as actions, `actions_scale` included."""
    return {
        key: {at: n * _rate(routes[key[0]].arch.components[key[1]], key[2], key[3]) for at, n in counts.items()}
        for key, counts in values.items()
    }


def _spans(recorder: Recorder, routes: Mapping[str, Route]) -> tuple[SpanRow, ...]:
    """Visits in the order of time; nothing where they were not recorded."""
    if recorder.timeline is None:
        return ()
    recorder.timeline.carried(recorder.hops())
    keys = (*recorder.values, *(key for key, _ in recorder.hops()))
    rates = {key: _rate(routes[key[0]].arch.components[key[1]], key[2], key[3]) for key in keys}
    return tuple(recorder.timeline.rows(rates))


def _rate(unit: Component, tensor: str | None, action: str) -> float:
    """Actions for one value, or for one line where a memory moves these, `actions_scale` included."""
    per_value = 1.0 if tensor is None else unit.action(action).actions_per_value[tensor]
    layout = unit.layouts.get(tensor) if isinstance(unit, Memory) and tensor is not None else None
    return per_value * unit.actions_scale * (1 if layout is None else layout.values)


def _whole(tile: Tile, shape: tuple[int, ...]) -> NDArray[np.float64]:
    whole = tuple((0, n) for n in shape)
    return np.where(tile.present(whole).astype(bool), tile.values(whole), 0.0)
