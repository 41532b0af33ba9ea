"""When things happen: the model's seconds, shared out to what the simulator counted.

The simulator counts and has no clock; the model gives each component of an Einsum the seconds that its busiest instance
works, and lets all of them work at one time. The schedule here keeps both: the work of a component is shared out to
visits by actions / throughput; the component that works longest sets the time of each visit; every other one begins
its part of a visit with the visit, or as much earlier as it takes to end with the Einsum. Times are whole
femtoseconds from the begin of the run.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, groupby

from einmap.arch.component import Memory
from einmap.errors import NotSupportedError
from einmap.execute.result import CountKey, Execution, Tile
from einmap.model.cost import Cost
from einmap.schedule.routes import Instance
from einmap.spec.spec import Spec

PER_SECOND = 10**15


@dataclass(frozen=True, slots=True)
class Slice:
    """An Einsum runs, some visits of its innermost loops, from `begin` to `end` (fs)."""

    begin: int
    end: int
    einsum: str
    visits: int


@dataclass(frozen=True, slots=True)
class Work:
    """A component's actions for one tensor (None: operations) in one slice of its Einsum, at its busiest instance.

    `count`: actions of that instance, `total`: of all. `tile`: empty where several visits are joined. `pieces`: from
    when to when (fs); several where another Einsum runs in between.
    """

    key: CountKey
    count: float
    total: float
    tile: Tile
    pieces: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """A component does nothing from `begin` to `end` (fs) while `einsum` runs.

    `limited_by`: who works meanwhile and sets the time; None where the Einsum does not use the component.
    """

    begin: int
    end: int
    component: str
    einsum: str
    limited_by: str | None


@dataclass(frozen=True, slots=True)
class Level:
    """From `begin` (fs) on the fullest instance of a memory holds `bits`, the most until its next level."""

    begin: int
    memory: str
    bits: float


@dataclass(frozen=True)
class Timing:
    """A run in time. `end`: fs of the whole; `visits`: of one recorded span at most; `instance`: the busiest ones."""

    end: int
    visits: int
    slices: tuple[Slice, ...]
    works: tuple[Work, ...]
    waits: tuple[Wait, ...]
    levels: tuple[Level, ...]
    instances: Mapping[tuple[str, str], Instance]


@dataclass(frozen=True)
class _Times:
    """The parts of one Einsum: where each begins in the Einsum's own time, and in that of the run; one edge more."""

    local: list[int]
    run: list[int]

    def pieces(self, begin: int, end: int) -> tuple[tuple[int, int], ...]:
        """An interval of the Einsum's own time in that of the run, cut where other Einsums run."""
        part = min(max(bisect_right(self.local, begin) - 1, 0), len(self.run) - 1)
        pieces = []
        while True:
            shift = self.run[part] - self.local[part]
            stop = min(end, self.local[part + 1])
            pieces.append((begin + shift, stop + shift))
            if stop >= end:
                return _merged(pieces)
            begin, part = stop, part + 1


def _merged(pieces: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    merged: list[tuple[int, int]] = []
    for begin, end in pieces:
        if merged and merged[-1][1] == begin:
            merged[-1] = merged[-1][0], end
        elif end > begin or not merged:
            merged.append((begin, end))
    return tuple(merged)


def timing_of(spec: Spec, cost: Cost, execution: Execution) -> Timing:
    """The spans of an execution (`execute(timeline=...)`) in the time of the model, which counted as `exact` does.

    Raises NotSupportedError where an Einsum takes longer than its busiest component, and for Pipelines.
    """
    if spec.mapping is not None and spec.mapping.is_pipelined:
        raise NotSupportedError("a trace of a mapping with a Pipeline is not supported yet")
    if cost.longer:
        raise NotSupportedError(
            f"a trace of Einsum {cost.longer[0].einsum!r}, whose components wait for one another, is not supported yet",
            hint="leave out `buffering: single`, `wind_up`, `pipeline_latency` and `stalls`",
        )
    parts = [(n, e) for n, span in enumerate(execution.spans) for e in dict.fromkeys(key[0] for key in span.actions)]
    seconds = {(row.einsum, row.component): round(row.latency * PER_SECOND) for row in cost.latencies}
    loads = _loads(spec, execution, parts, seconds)
    limits = _limits(seconds)
    counts = Counter(einsum for _, einsum in parts)
    edges = {einsum: _edges(einsum, n, limits, loads, seconds) for einsum, n in counts.items()}
    slices, starts, times = _sliced(execution, parts, edges)
    works = [work for load in loads.values() for work in _placed(load, times[load.einsum])]
    end = slices[-1].end if slices else 0
    return Timing(
        end,
        max((span.visits for span in execution.spans), default=1),
        tuple(slices),
        tuple(works),
        tuple(_waits(spec, slices, works, loads, limits)),
        tuple(_levels(spec, execution, starts)),
        {key: load.instance for key, load in loads.items()},
    )


# what there is to do


@dataclass
class _Entry:
    """Actions of one key in one part: fs of work, and the part's number within the Einsum."""

    part: int
    key: CountKey
    count: float
    total: float
    tile: Tile
    work: int = 0


@dataclass
class _Load:
    """All work of one component for one Einsum, in order; `busy`: fs."""

    einsum: str
    component: str
    instance: Instance
    busy: int
    entries: list[_Entry] = field(default_factory=list)


def _loads(
    spec: Spec, execution: Execution, parts: list[tuple[int, str]], seconds: Mapping[tuple[str, str], int]
) -> dict[tuple[str, str], _Load]:
    instances = _busiest(spec, execution)
    loads = {key: _Load(*key, instance, seconds.get(key, 0)) for key, instance in instances.items()}
    numbers: dict[str, int] = {}
    for n, einsum in parts:
        number = numbers[einsum] = numbers.get(einsum, -1) + 1
        span = execution.spans[n]
        for key, counts in span.actions.items():
            if key[0] == einsum:
                load = loads[key[:2]]
                count = counts.get(load.instance, 0.0)
                load.entries.append(_Entry(number, key, count, sum(counts.values()), span.tiles.get(key, ())))
    for load in loads.values():
        _share_out(spec, load)
    return loads


def _rate(spec: Spec, key: CountKey) -> float:
    """Seconds of one action."""
    throughput = spec.arch(key[0]).components[key[1]].action(key[3]).throughput
    return 1 / throughput if 0 < throughput < math.inf else 0.0


def _busiest(spec: Spec, execution: Execution) -> dict[tuple[str, str], Instance]:
    """The instance of each component that works longest on an Einsum; the first of equal ones."""
    work: dict[tuple[str, str], dict[Instance, tuple[float, float]]] = {}
    for key, counts in execution.per_instance.items():
        rate = _rate(spec, key)
        by_instance = work.setdefault(key[:2], {})
        for instance, n in counts.items():
            seconds, actions = by_instance.get(instance, (0.0, 0.0))
            by_instance[instance] = seconds + n * rate, actions + n
    return {
        key: min(by_instance, key=lambda i: (-by_instance[i][0], -by_instance[i][1], i))
        for key, by_instance in work.items()
    }


def _share_out(spec: Spec, load: _Load) -> None:
    """Give each entry its part of the busy time, by actions / throughput; by actions where that tells nothing."""
    weights = [entry.count * _rate(spec, entry.key) for entry in load.entries]
    if not any(weights):
        weights = [entry.count for entry in load.entries]
    whole = math.fsum(weights)
    edges = [0, *(round(load.busy * (part / whole)) if whole else 0 for part in accumulate(weights))]
    for entry, begin, end in zip(load.entries, edges, edges[1:], strict=False):
        entry.work = min(end, load.busy) - min(begin, load.busy)


# when


def _limits(seconds: Mapping[tuple[str, str], int]) -> dict[str, str]:
    """The component that works longest, for each Einsum that takes time."""
    limits: dict[str, str] = {}
    for (einsum, component), busy in seconds.items():
        if busy > seconds.get((einsum, limits.get(einsum, "")), 0):
            limits[einsum] = component
    return limits


def _edges(
    einsum: str,
    count: int,
    limits: Mapping[str, str],
    loads: Mapping[tuple[str, str], _Load],
    seconds: Mapping[tuple[str, str], int],
) -> list[int]:
    """Where the `count` parts of an Einsum begin in its own time, and where the last one ends."""
    limit = limits.get(einsum)
    if limit is None:
        return [0] * (count + 1)
    whole = seconds[einsum, limit]
    load = loads.get((einsum, limit))
    if load is None or not any(entry.work for entry in load.entries):
        return [whole * n // count for n in range(count + 1)]
    work = [0] * count
    for entry in load.entries:
        work[entry.part] += entry.work
    return [*accumulate(work[:-1], initial=0), whole]


def _sliced(
    execution: Execution, parts: list[tuple[int, str]], edges: Mapping[str, list[int]]
) -> tuple[list[Slice], list[int], dict[str, _Times]]:
    """The parts one after the other; where each span begins; each Einsum's own time against that of the run."""
    slices: list[Slice] = []
    starts: list[int] = []
    times = {einsum: _Times(local, []) for einsum, local in edges.items()}
    clock = 0
    for n, einsum in parts:
        starts += [clock] * (n + 1 - len(starts))
        local, run = times[einsum].local, times[einsum].run
        duration = local[len(run) + 1] - local[len(run)]
        run.append(clock)
        slices.append(Slice(clock, clock + duration, einsum, execution.spans[n].visits))
        clock += duration
    starts += [clock] * (len(execution.spans) - len(starts))
    return slices, starts, times


def _placed(load: _Load, times: _Times) -> Iterator[Work]:
    """The work of a component: with its part of the Einsum, earlier where it would not end with the Einsum else."""
    clock, remaining, end = 0, load.busy, times.local[-1]
    for part, group in groupby(load.entries, lambda entry: entry.part):
        clock = max(clock, min(times.local[part], end - remaining))
        for entry in group:
            pieces = times.pieces(clock, clock + entry.work)
            yield Work(entry.key, entry.count, entry.total, entry.tile, pieces)
            clock += entry.work
            remaining -= entry.work


# what waits


def _waits(
    spec: Spec,
    slices: list[Slice],
    works: list[Work],
    loads: Mapping[tuple[str, str], _Load],
    limits: Mapping[str, str],
) -> Iterator[Wait]:
    busy: dict[str, list[tuple[int, int]]] = {}
    for work in works:
        busy.setdefault(work.key[1], []).extend(piece for piece in work.pieces if piece[0] < piece[1])
    for component in spec.arch().components:
        if component not in busy and not any(key[1] == component for key in loads):
            continue
        previous: Wait | None = None
        for gap in _gaps(slices, sorted(busy.get(component, []))):
            begin, end, einsum = gap
            limit = limits.get(einsum) if (einsum, component) in loads else None
            if previous is not None and (previous.end, previous.einsum) == (begin, einsum):
                previous = Wait(previous.begin, end, component, einsum, limit)
                continue
            if previous is not None:
                yield previous
            previous = Wait(begin, end, component, einsum, limit)
        if previous is not None:
            yield previous


def _gaps(slices: list[Slice], pieces: list[tuple[int, int]]) -> Iterator[tuple[int, int, str]]:
    """Times of slices in which none of `pieces`, in order and disjoint, lies."""
    number = 0
    for part in slices:
        clock = part.begin
        while number < len(pieces) and pieces[number][0] < part.end:
            begin, end = pieces[number]
            if begin > clock:
                yield clock, begin, part.einsum
            clock = max(clock, min(end, part.end))
            if end > part.end:
                break
            number += 1
        if clock < part.end:
            yield clock, part.end, part.einsum


def _levels(spec: Spec, execution: Execution, starts: list[int]) -> Iterator[Level]:
    """How full memories are: the most in each span, where that changes."""
    steps = [span.step for span in execution.spans]
    for memory, unit in spec.arch().components.items():
        if not isinstance(unit, Memory):
            continue
        peaks, held = {0: 0.0}, 0.0
        rows = [row for row in execution.occupancy if row.component == memory]
        for span, group in groupby(rows, lambda row: max(bisect_right(steps, row.step) - 1, 0)):
            changes = list(group)
            # what is left of the span before counts, unless the first change comes with the span
            carried = held if changes[0].step > steps[span] else 0.0
            peaks[span] = max(carried, *(row.bits for row in changes))
            held = changes[-1].bits
            peaks[span + 1] = held
        peaks.pop(len(starts), None)
        last: float | None = None
        for span, bits in sorted(peaks.items()):
            if bits != last:
                yield Level(starts[span], memory, bits)
            last = bits
