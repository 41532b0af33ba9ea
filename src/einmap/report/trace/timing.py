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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby

from einmap.arch.component import Memory
from einmap.errors import NotSupportedError
from einmap.execute.results.result import CountKey, Execution, Tile, TurnKey
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import pipelines_in
from einmap.model.cost import Cost
from einmap.report.trace.pipelined import PipelineTimes, in_order, times_of
from einmap.report.trace.values import Level, Slice, Timing, Wait, Work
from einmap.schedule.routes import Instance
from einmap.spec.spec import Spec

PER_SECOND = 10**15


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

    Raises NotSupportedError where an Einsum takes longer than its busiest component, and for tiles of a Pipeline that
    some Einsum has no part of.
    """
    if cost.longer:
        raise NotSupportedError(
            f"a trace of Einsum {cost.longer[0].einsum!r}, whose components wait for one another, is not supported yet",
            hint="leave out `buffering: single`, `wind_up`, `pipeline_latency` and `stalls`",
        )
    placed = pipelines_in(spec.mapping, spec.workload) if spec.mapping is not None else ()
    parts = in_order(execution.spans, {pipeline.address: pipeline for pipeline in placed})
    seconds = {(row.einsum, row.component): round(row.latency * PER_SECOND) for row in cost.latencies}
    loads = _loads(spec, execution, parts, seconds)
    limits = _limits(seconds)
    longest = {name: seconds.get((name, limits.get(name, "")), 0) for name in {name for _, name in parts}}
    pipelines = times_of(execution.spans, parts, placed, cost.pipelines, longest)
    by_einsum = {name: times for times in pipelines.values() for name in times.placed.stage_of}
    numbers: dict[str, list[int]] = {}
    for n, einsum in parts:
        numbers.setdefault(einsum, []).append(n)
    edges = {
        einsum: _edges_by_tile(einsum, [execution.spans[n].turn for n in own], limits, loads, by_einsum[einsum])
        if einsum in by_einsum
        else _edges(einsum, len(own), limits, loads, seconds)
        for einsum, own in numbers.items()
    }
    course = _sliced(execution, parts, edges, pipelines)
    works = [
        replace(work, stage=by_einsum[load.einsum].track(load.einsum) if load.einsum in by_einsum else "")
        for load in loads.values()
        for work in _placed(load, course.times[load.einsum])
    ]
    uses = {key: key[0] for key in loads}
    uses |= {(by_einsum[name].slowest, component): name for name, component in loads if name in by_einsum}
    return Timing(
        course.end,
        max((span.visits for span in execution.spans), default=1),
        tuple(course.slices),
        tuple(works),
        tuple(_waits(spec, course.frames, works, uses, limits)),
        tuple(_levels(spec, execution, course.starts)),
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


def _edges_by_tile(
    einsum: str,
    turns: Sequence[TurnKey | None],
    limits: Mapping[str, str],
    loads: Mapping[tuple[str, str], _Load],
    times: PipelineTimes,
) -> list[int]:
    """Where the parts of an Einsum of a Pipeline begin and the last one ends in its own time: tiles are alike."""
    load = loads.get((einsum, limits.get(einsum, "")))
    work = [0] * len(turns)
    for entry in load.entries if load is not None else ():
        work[entry.part] += entry.work
    edges: list[int] = []
    end = 0
    for turn, group in groupby(range(len(turns)), lambda part: turns[part]):
        own = list(group)
        if turn is None or turn not in times.position:
            # what leaves a buffer further out, later on, takes none of the tiles' time
            edges += [end] * len(own)
            continue
        place = times.position[turn]
        begin, end = times.edge(einsum, place), times.edge(einsum, place + 1)
        before = [0, *accumulate(work[part] for part in own)]
        whole = before[-1]
        edges += [begin + (end - begin) * done // whole if whole else begin for done in before[:-1]]
    return [*edges, times.edge(einsum, len(times.position))]


@dataclass
class _Course:
    """The parts in time. `frames`: what runs, one after the other, a run of a Pipeline as a whole.

    `starts`: of each span. `times`: each Einsum's own time against that of the run.
    """

    times: dict[str, _Times]
    slices: list[Slice] = field(default_factory=list)
    frames: list[Slice] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    end: int = 0


def _sliced(
    execution: Execution,
    parts: list[tuple[int, str]],
    edges: Mapping[str, list[int]],
    pipelines: Mapping[Address, PipelineTimes],
) -> _Course:
    """The parts one after the other, and those of Pipelines as their tiles go through."""
    course = _Course({einsum: _Times(local, []) for einsum, local in edges.items()})
    begins: dict[int, int] = {}
    current: tuple[Address, int] | None = None
    at: dict[tuple[TurnKey, str], int] = {}
    for n, einsum in parts:
        span, local, run = execution.spans[n], course.times[einsum].local, course.times[einsum].run
        done, duration = local[len(run)], local[len(run) + 1] - local[len(run)]
        begin, stage = course.end, ""
        times = pipelines.get(span.turn[0]) if span.turn is not None else None
        if span.turn is not None and times is not None and einsum in times.placed.stage_of:
            if span.turn[:2] != current:
                end = times.end_of(span.turn, course.end, PER_SECOND)
                begun = times.begins(times.run_of(span.turn), course.end, end)
                at = {(tile, name): clock for tile, name, clock in begun}
                course.frames.append(Slice(course.end, end, times.slowest, 0))
                current, course.end = span.turn[:2], end
            begin = at[span.turn, einsum] + done - times.edge(einsum, times.position[span.turn])
            stage = times.track(einsum)
            course.end = max(course.end, begin + duration)
            course.frames[-1] = replace(course.frames[-1], end=course.end)
        else:
            course.end += duration
            current = None
        run.append(begin)
        part = Slice(begin, begin + duration, einsum, span.visits, stage)
        course.slices.append(part)
        if not stage:
            course.frames.append(part)
        begins[n] = min(begins.get(n, begin), begin)
    latest = 0
    for n in range(len(execution.spans)):
        latest = max(latest, begins.get(n, latest))
        course.starts.append(latest)
    return course


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
    frames: list[Slice],
    works: list[Work],
    uses: Mapping[tuple[str, str], str],
    limits: Mapping[str, str],
) -> Iterator[Wait]:
    """`uses`: Einsums with the components that they use, and in a Pipeline the slowest one with those of all."""
    busy: dict[str, list[tuple[int, int]]] = {}
    for work in works:
        busy.setdefault(work.key[1], []).extend(piece for piece in work.pieces if piece[0] < piece[1])
    for component in spec.arch().components:
        if component not in busy and not any(key[1] == component for key in uses):
            continue
        previous: Wait | None = None
        for gap in _gaps(frames, _union(busy.get(component, []))):
            begin, end, einsum = gap
            limit = limits.get(einsum) if (einsum, component) in uses else None
            if previous is not None and (previous.end, previous.einsum) == (begin, einsum):
                previous = Wait(previous.begin, end, component, einsum, limit)
                continue
            if previous is not None:
                yield previous
            previous = Wait(begin, end, component, einsum, limit)
        if previous is not None:
            yield previous


def _union(pieces: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Times in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(pieces):
        if found and begin < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((begin, end))
    return found


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
