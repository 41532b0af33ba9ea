"""Schedules as CSV, in the form of `torch.distributed.pipelining` (2.13): one row a device.

A cell is an action, `2F0`: stage, kind, micro-batch; `(3F1;0B0)OVERLAP_F_B` are two that overlap; an empty one is idle.
Cells of transfers and of sharded weights (`0SEND_F1`, `2UNSHARD`) are left out: transfers follow from the stages, and
costs of stages include their weights.
"""

from __future__ import annotations

import csv
import io
import re
from typing import cast

from einmap.distribute.pipelines.schedule import Action, Kind, PipelineSchedule, Step
from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.visible import cut

MOST_ACTIONS = 200_000
"""Cells of a file, and actions of a schedule that is made: 64 devices with 1,000 micro-batches."""
_ACTION = re.compile(r"(\d{1,6})([FIWB])(\d{1,6})")
_OVERLAP = re.compile(r"\(([^;()]*);([^;()]*)\)OVERLAP_F_B")
_LEFT_OUT = re.compile(r"\d{1,6}(?:SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)\d{0,6}")


def schedule_csv(schedule: PipelineSchedule) -> str:
    """A schedule as CSV text; PyTorch reads it as one of computing alone (`compute_only`)."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([_cell(step) for step in steps] for steps in schedule.steps)
    return out.getvalue()


def _cell(step: Step) -> str:
    return str(step[0]) if len(step) == 1 else f"({';'.join(map(str, step))})OVERLAP_F_B"


def schedule_from_csv(text: str, file: str | None = None) -> PipelineSchedule:
    """The schedule that CSV text holds; stages are on the devices in whose rows they stand.

    Raises SpecError (several problems together) with line and number of the cell for a cell that is not an action, and
    for rows that are not a schedule.
    """
    problems: list[EinmapError] = []
    rows: list[tuple[Step, ...]] = []
    left = MOST_ACTIONS
    try:
        for line, row in enumerate(csv.reader(io.StringIO(text), strict=True), start=1):
            left -= len(row)
            if left < 0:
                raise SpecError(f"the file has more than {MOST_ACTIONS:,} cells", at=At(file, line))
            rows.append(tuple(_steps(row, file, line, problems)))
    except csv.Error as error:
        raise SpecError(f"this is not CSV: {error}", at=At(file)) from None
    raise_all(problems)
    devices: dict[int, int] = {}
    for device, steps in enumerate(rows):
        devices.update((action.stage, device) for step in steps for action in step)
    if not devices:
        raise SpecError("the file has no action", at=At(file), hint="write one row a device, e.g. 0F0,0F1,0B0,0B1")
    missing = next((stage for stage in range(max(devices) + 1) if stage not in devices), None)
    if missing is not None:
        raise SpecError(f"stage {missing} has no action, stage {max(devices)} has some", at=At(file))
    try:
        return PipelineSchedule(tuple(devices[stage] for stage in sorted(devices)), tuple(rows), file or "")
    except SpecError as error:
        error.at = At(file)
        raise


def _steps(row: list[str], file: str | None, line: int, problems: list[EinmapError]) -> list[Step]:
    steps = []
    for number, cell in enumerate(row, start=1):
        text = cell.strip()
        overlap = _OVERLAP.fullmatch(text)
        parts = [_ACTION.fullmatch(part.strip()) for part in (overlap.groups() if overlap else (text,))]
        if all(parts):
            actions = tuple(Action(int(m[1]), cast(Kind, m[2]), int(m[3])) for m in parts if m)
            steps.append(actions)
        elif text and not _LEFT_OUT.fullmatch(text):
            what = f"{cut(text, 40)!r} is not an action"
            problems.append(
                SpecError(what, at=At(file, line, number), hint="write stage, F, I, W or B, micro-batch: 2F0")
            )
    return steps
