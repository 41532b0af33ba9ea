"""A run as a file in the Trace Event format (JSON), which ui.perfetto.dev and chrome://tracing open.

One process for each component, with a thread for each tensor and action, one for what it waits for, and a counter of
the bits that a memory holds; and a process with the Einsums. Names of specifications are escaped where they could
deceive a reader, and all text by JSON.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.execute.results.result import CountKey, Execution
from einmap.model.cost import Cost
from einmap.report.trace.event_lines import complete, event_line, metadata_line, thread_lines, whole_file
from einmap.report.trace.timing import timing_of
from einmap.report.trace.values import Timing, Work
from einmap.spec.spec import Spec
from einmap.units import format_bits
from einmap.visible import visible

MOST = 100_000
"""Pairs of action and instance that are recorded at most for a file: beyond that neighbouring visits are one event."""
_EINSUMS, _WAITS = "", "waits"
"""The process of the Einsums, where components have their names; the thread of each component that waits."""


def perfetto_trace(spec: Spec, cost: Cost, execution: Execution) -> Iterator[bytes]:
    """The file, piece by piece. `execution` has its timeline recorded, `cost` is counted as `exact` does."""
    timing = timing_of(spec, cost, execution)
    head = {
        "latency [s]": cost.latency,
        "visits of innermost loops in one event": timing.visits,
        "times": "microseconds",
    }
    yield from whole_file(_events(spec, timing), head)


def _events(spec: Spec, timing: Timing) -> Iterator[str]:
    tracks = _Tracks.of(spec.arch(), timing)
    yield from tracks.metadata(spec.arch(), timing)
    for piece in timing.slices:
        where = tracks.thread(_EINSUMS, piece.stage)
        yield complete(visible(piece.einsum), "Einsum", where, piece.begin, piece.end, {"visits": piece.visits})
    for work in timing.works:
        yield from _work(work, tracks)
    for wait in timing.waits:
        name = f"{visible(wait.einsum)} does not use it"
        if wait.limited_by is not None:
            name = f"waits: {visible(wait.limited_by)} limits {visible(wait.einsum)}"
        where = tracks.thread(wait.component, _WAITS)
        yield complete(name, "wait", where, wait.begin, wait.end, {"limited by": wait.limited_by})
    for level in timing.levels:
        pid = tracks.processes[level.memory]
        yield event_line({"name": "bits held", "ph": "C", "pid": pid, "args": {"bits": level.bits}}, level.begin)


def _work(work: Work, tracks: _Tracks) -> Iterator[str]:
    """The events of one piece of work; what continues after another Einsum has no counts, so that sums are right."""
    einsum, component, tensor, action = work.key
    counts: dict[str, Any] = {"Einsum": einsum, "actions": work.count, "actions of all instances": work.total}
    if work.tile:
        counts["tile"] = " ".join(f"{first}..{last}" for first, last in work.tile)
    what = f"{action} {visible(tensor)}" if tensor is not None else f"{action} {visible(einsum)}"
    category = "compute" if tensor is None else "move"
    for begin, end in work.pieces:
        where = tracks.thread(component, _track_name(work.key, work.stage))
        yield complete(what, category, where, begin, end, counts)
        counts = {"Einsum": einsum, "continues": True}


def _track_name(key: CountKey, stage: str) -> str:
    """`A read`, or `A read, stage 2`: stages work at one time."""
    name = key[3] if key[2] is None else f"{visible(key[2])} {key[3]}"
    return f"{name}, {stage}" if stage else name


@dataclass(frozen=True)
class _Tracks:
    """Numbers of processes by component, and of threads by component and name; every number once."""

    processes: dict[str, int]
    threads: dict[tuple[str, str], int] = field(default_factory=dict)

    @staticmethod
    def of(arch: Architecture, timing: Timing) -> _Tracks:
        """A thread for each tensor and action that there is, in the order in which they come first."""
        used = dict.fromkeys((_EINSUMS, stage) for stage in sorted({"", *(piece.stage for piece in timing.slices)}))
        used |= dict.fromkeys((work.key[1], _track_name(work.key, work.stage)) for work in timing.works)
        used |= dict.fromkeys((component, _WAITS) for component in sorted({wait.component for wait in timing.waits}))
        names = [_EINSUMS, *arch.components]
        processes = {name: number for number, name in enumerate(names, 1)}
        ordered = sorted(used, key=lambda track: names.index(track[0]))
        return _Tracks(processes, {track: number for number, track in enumerate(ordered, len(names) + 1)})

    def thread(self, component: str, name: str) -> tuple[int, int]:
        """Process and thread."""
        return self.processes[component], self.threads[component, name]

    def metadata(self, arch: Architecture, timing: Timing) -> Iterator[str]:
        """Names and order of processes and threads."""
        for name, pid in self.processes.items():
            shown = _process_name(arch, name, timing) if name else "Einsums"
            yield metadata_line("process_name", pid, {"name": shown})
            yield metadata_line("process_sort_index", pid, {"sort_index": pid})
        for (component, name), tid in self.threads.items():
            yield from thread_lines(name or "Einsums", self.processes[component], tid)


def _process_name(arch: Architecture, name: str, timing: Timing) -> str:
    """`GlobalBuffer (memory of 128 MiB, the busiest of 4)`."""
    unit, number = arch.components[name], arch.instances[name]
    kind = type(unit).__name__.lower()
    if isinstance(unit, Memory) and not math.isinf(unit.size_bits):
        kind = f"memory of {format_bits(unit.size_bits)}"
    lanes = {instance for (_, component), instance in timing.instances.items() if component == name}
    busiest = f", the busiest of {number:,}" if number > 1 and lanes else ""
    return f"{visible(name)} ({kind}{busiest})"
