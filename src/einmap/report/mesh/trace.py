"""The timeline of a plan as a file in the Trace Event format (JSON), which ui.perfetto.dev and chrome://tracing open.

One process stands for every PE, with a thread for Einsums and one for each axis of the mesh, and a counter of the
bytes that a PE holds. Names of specifications are escaped where they could deceive a reader, and all text by JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from einmap.distribute.plans.lifetimes import held_in_time
from einmap.distribute.plans.plan import Plan
from einmap.einsum.einsum import TensorName
from einmap.report.mesh.pictures.lanes import kind_of, lanes_of
from einmap.report.mesh.steps import ShownStep
from einmap.report.trace.event_lines import complete, event_line, metadata_line, thread_lines, whole_file
from einmap.report.trace.timing import PER_SECOND
from einmap.visible import visible

_PE = 1
_FIRST_THREAD = 2


def plan_trace(plan: Plan, steps: Sequence[ShownStep], bits: Mapping[TensorName, float]) -> Iterator[bytes]:
    """The file, piece by piece. A move over several axes stands in the thread of each. `bits`: of values by tensor."""
    mesh = plan.mesh
    whole = max((step.end for step in steps), default=0.0)
    head = {"latency [s]": whole, "PEs": mesh.n_devices, "mesh": visible(str(mesh)), "times": "microseconds"}
    yield from whole_file(_events(plan, steps, bits), head)


def _events(plan: Plan, steps: Sequence[ShownStep], bits: Mapping[TensorName, float]) -> Iterator[str]:
    mesh = plan.mesh
    pes = "PE" if mesh.n_devices == 1 else f"each of {mesh.n_devices:,} PEs"
    yield metadata_line("process_name", _PE, {"name": f"{pes} (mesh {visible(str(mesh))})"})
    threads = {lane: number for number, lane in enumerate(lanes_of(mesh), _FIRST_THREAD)}
    for lane, thread in threads.items():
        yield from thread_lines(visible(lane), _PE, thread)
    for step in sorted(steps, key=lambda one: (one.start, one.position)):
        begin, end = round(step.start * PER_SECOND), round(step.end * PER_SECOND)
        args = {
            "step": step.position + 1,
            "how": visible(step.how),
            "reads": [visible(f"{buffer.tensor} ({buffer.placement})") for buffer in step.reads],
            "writes": [visible(f"{buffer.tensor} ({buffer.placement})") for buffer in step.writes],
            "bytes sent by each PE": step.sent,
            "on the critical path": step.is_critical,
        }
        for lane in step.lanes:
            yield complete(visible(step.name), kind_of(step), (_PE, threads[lane]), begin, end, args)
    for time, held in held_in_time(plan, [(step.start, step.end) for step in steps], bits):
        counter = {"name": "bytes held", "ph": "C", "pid": _PE, "args": {"bytes": held}}
        yield event_line(counter, round(time * PER_SECOND))
