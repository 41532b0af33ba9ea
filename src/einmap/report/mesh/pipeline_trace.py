"""The timeline of a pipeline as a file in the Trace Event format (JSON), for ui.perfetto.dev and chrome://tracing.

One process stands for the pipeline, with a thread for each device, in which bubbles are events too, and a counter of
what the device holds.
"""

from __future__ import annotations

from collections.abc import Iterator

from einmap.distribute.pipelines.timeline import Timeline
from einmap.report.mesh.pictures.pipeline import WORDS, gaps
from einmap.report.trace.event_lines import complete, event_line, metadata_line, thread_lines, whole_file
from einmap.report.trace.timing import PER_SECOND

_PIPELINE = 1
_FIRST_THREAD = 1


def pipeline_trace(timeline: Timeline, unit: str = "activations") -> Iterator[bytes]:
    """The file, piece by piece. Actions that overlap stand in one another. `unit`: of what a device holds."""
    schedule = timeline.schedule
    head = {
        "schedule": schedule.name,
        "latency [s]": timeline.makespan,
        "bubble": timeline.bubble,
        "devices": schedule.devices,
        "micro-batches": schedule.micro_batches,
        "times": "microseconds",
    }
    yield from whole_file(_events(timeline, unit), head)


def _events(timeline: Timeline, unit: str) -> Iterator[str]:
    schedule = timeline.schedule
    yield metadata_line("process_name", _PIPELINE, {"name": f"pipeline of {schedule.devices} devices"})
    for device, steps in enumerate(schedule.steps):
        thread = _FIRST_THREAD + device
        yield from thread_lines(f"device {device}", _PIPELINE, thread)
        events = [
            (timeline.begins[a], timeline.ends[a], f"{a.kind} {a.micro_batch}", WORDS[a.kind], {"stage": a.stage})
            for step in steps
            for a in step
        ]
        events += [(begin, end, "bubble", "bubble", {}) for begin, end in gaps(timeline, device)]
        for begin, end, name, kind, args in sorted(events, key=lambda event: event[:2]):
            times = round(begin * PER_SECOND), round(end * PER_SECOND)
            yield complete(name, kind, (_PIPELINE, thread), *times, args)
        for time, held in timeline.held(device):
            counter = {"name": f"held by device {device}", "ph": "C", "pid": _PIPELINE, "args": {unit: held}}
            yield event_line(counter, round(time * PER_SECOND))
