"""Gains of single changes: the specification is changed, and the cost computed anew.

- throughput: one action of one component twice as fast, also where its class gives the throughput; the mapping stays.
- capacity: one tensor's storage node moved above the next loops, as far as something is saved first; the memory
  grows where it must.
- fanout: one loop over a fanout with twice the lanes; the fanout grows where it must, tile shapes as `fill` says.

Everything else is held fixed, also what a larger memory or fanout would cost unless the specification says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from einmap.errors import EinmapError
from einmap.mapping.mapping import Mapping
from einmap.model.counting.spatial import lanes_used
from einmap.model.evaluate import Workings, workings_of
from einmap.model.explanation.moves import Hoist, filled, hoisted
from einmap.model.explanation.values import Change
from einmap.spec.raw import Path, get_value, to_python
from einmap.spec.schema.arch import ComponentInput, NetworkInput
from einmap.spec.spec import Spec

LEAST = 1e-9
"""Changes of less than this part are none."""


def changes_of(workings: Workings) -> tuple[Change, ...]:
    """All changes that save energy or time, those that save most of energy x latency first."""
    changes = [*_throughputs(workings), *_capacities(workings), *_fanouts(workings)]
    helping = [c for c in changes if min(c.energy_change, c.latency_change) < -LEAST]
    return tuple(sorted(helping, key=lambda c: (1 + c.energy_change) * (1 + c.latency_change)))


def _relative(after: float, before: float) -> float:
    return after / before - 1 if before else 0.0


# throughput


def _throughputs(workings: Workings) -> Iterator[Change]:
    cost, spec = workings.cost, workings.spec
    slowest = cost.latency_by_einsum
    # what never sets a latency cannot shorten it
    waiting = {row.einsum for row in cost.longer}
    busy = {
        row.component
        for row in cost.latencies
        if row.latency and (row.einsum in waiting or row.latency == slowest[row.einsum])
    }
    used = {(row.component, row.action) for row in cost.actions if not row.is_constant}
    for leaf in spec.arch_inputs.leaves:
        if not isinstance(leaf.given, ComponentInput) or leaf.given.name not in busy:
            continue
        names = [action.name for action in leaf.given.actions]
        for name in sorted(
            (action for component, action in used if component == leaf.given.name), key=_place_in(names)
        ):
            change = _twice(spec, leaf.path, leaf.given, name)
            after = _evaluated(spec.set(*change))
            if after is not None:
                yield _change("throughput", leaf.given.name, name, (change,), None, cost_of(after, workings))


def _place_in(names: Sequence[str]) -> Callable[[str], tuple[int, str]]:
    """A key of order: names as they are listed, others behind them by name."""
    return lambda name: (names.index(name) if name in names else len(names), name)


def _twice(spec: Spec, path: Path, given: ComponentInput, name: str) -> tuple[str, object]:
    """The path and value that double the throughput of an action.

    An action that is not written, since a class gives its cost, is written behind the others with its scale alone.
    """
    index = next((index for index, action in enumerate(given.actions) if action.name == name), None)
    actions = (*path, "actions")
    if index is None:
        written = to_python(get_value(spec.raw, actions)) if given.actions else []
        return _dotted(actions), [*written, {"name": name, "throughput_scale": 2}]
    action, base = given.actions[index], _dotted((*actions, index))
    # the latency of a network's hop is that of a step, and does not change its throughput
    if action.latency_scale is not None and not isinstance(given, NetworkInput):
        return f"{base}.latency_scale", f"({action.latency_scale}) / 2"
    if action.throughput_scale is not None:
        return f"{base}.throughput_scale", f"2 * ({action.throughput_scale})"
    return f"{base}.throughput_scale", 2


def _dotted(path: Path) -> str:
    return ".".join(map(str, path))


def cost_of(after: Workings, before: Workings) -> tuple[float, float, float, float]:
    """Energy and latency after a change, and how much that is more than before, as parts of it."""
    new, old = after.cost, before.cost
    return new.energy, new.latency, _relative(new.energy, old.energy), _relative(new.latency, old.latency)


def _change(
    kind: str,
    component: str,
    what: str,
    sets: tuple[tuple[str, object], ...],
    mapping: Mapping | None,
    numbers: tuple[float, float, float, float],
    **more: object,
) -> Change:
    return Change(kind, component, what, sets, mapping, *numbers, **more)  # type: ignore[arg-type]


def _evaluated(spec: Spec, tree: Mapping | None = None, *, unlimited: bool = False) -> Workings | None:
    """The evaluation of a change; None where the changed specification has no valid mapping."""
    try:
        return workings_of(spec, tree, unlimited=unlimited)
    except EinmapError:
        return None


def _warns_more(after: Workings, before: Workings) -> bool:
    """Whether a mapping violates constraints that the one before does not."""
    earlier = {note.text for note in before.cost.notes}
    return any(note.kind == "warning" and note.text not in earlier for note in after.cost.notes)


# capacity


def _capacities(workings: Workings) -> Iterator[Change]:
    """Nodes moved above the next loops until something is saved, where that needs more of their own memory at most."""
    paths = workings.paths.values()
    backing = {(stations[0].address, tensor) for path in paths for tensor, stations in path.stations.items()}
    turning = {loop.address for path in paths for loop in path.loops if not loop.absent}
    absent = {loop.address for path in paths for loop in path.loops if loop.absent} - turning
    done = set(backing)
    for move in hoisted(workings.tree, workings.spec.workload, absent):
        if (move.address, move.tensor) in done:
            continue
        change = _moved(workings, move)
        if change is not None and min(change.energy_change, change.latency_change) < -LEAST:
            done.add((move.address, move.tensor))
            yield change


def _moved(workings: Workings, move: Hoist) -> Change | None:
    """The cost of a moved node; None where the mapping is not valid, or another memory overflows."""
    after = _evaluated(workings.spec, move.mapping, unlimited=True)
    if after is None or _warns_more(after, workings):
        return None
    over = [name for name, peak in after.peaks.items() if peak.bits > peak.memory.size_bits]
    if (over and over != [move.component]) or move.component not in after.peaks:
        return None  # a node that a copy does not use holds nothing
    needs = after.peaks[move.component].bits
    sets: tuple[tuple[str, object], ...] = ()
    if over:
        sets = ((f"{_path_of(workings.spec, move.component)}.size", _whole(needs)),)
        after = _evaluated(changed(workings.spec, sets, move.mapping))
        if after is None:
            return None
    what = f"{move.tensor} above the loop{'s' if len(move.loops) > 1 else ''} over {', '.join(move.loops)}"
    now = workings.peaks[move.component].memory.size_bits
    numbers = cost_of(after, workings)
    more = {"needs_bits": needs, "capacity": now, "rewrite": move.rewrite}
    return _change("capacity", move.component, what, sets, move.mapping, numbers, **more)


def _path_of(spec: Spec, component: str) -> str:
    leaf = next(leaf for leaf in spec.arch_inputs.leaves if leaf.given.name == component)
    return _dotted(leaf.path)


def _whole(bits: float) -> float:
    return int(bits) if float(bits).is_integer() else bits


def changed(spec: Spec, sets: tuple[tuple[str, object], ...], mapping: Mapping | None) -> Spec:
    """The specification that a change gives."""
    for path, value in sets:
        spec = spec.set(path, value)
    return spec if mapping is None else spec.with_mapping(mapping)


# fanout


def _fanouts(workings: Workings) -> Iterator[Change]:
    """Each fanout with twice the lanes at work, where loops are left that can fill them."""
    for leaf in workings.spec.arch_inputs.leaves:
        for index, dimension in enumerate(leaf.given.spatial):
            used, available = _lanes(workings, leaf.given.name, dimension.name)
            if not available:
                continue
            sets: tuple[tuple[str, object], ...] = ()
            if 2 * used > available:
                sets = ((f"{_dotted(leaf.path)}.spatial.{index}.fanout", 2 * available),)
            for how, mapping in filled(workings.tree, leaf.given.name, dimension.name):
                after = _evaluated(changed(workings.spec, sets, mapping))
                if after is None or _warns_more(after, workings):
                    continue
                if _lanes(after, leaf.given.name, dimension.name)[0] <= used:
                    continue
                numbers = cost_of(after, workings)
                what = f"{dimension.name}: {how}"
                yield _change("fanout", leaf.given.name, what, sets, mapping, numbers, used=(used, available))
                break


def _lanes(workings: Workings, component: str, dimension: str) -> tuple[int, int]:
    """The most lanes that any Einsum uses, and how many there are; 0 where no path has the component."""
    used = available = 0
    for path in workings.paths.values():
        for leaf in path.leaves:
            for fanout_dimension in leaf.spatial:
                if (leaf.name, fanout_dimension.name) == (component, dimension):
                    used = max(used, lanes_used(path)[component, dimension])
                    available = max(available, fanout_dimension.fanout)
    return used, math.floor(available)
