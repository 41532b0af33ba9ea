"""A plan of a training step as text: `pp=2,tp=2,micro_batch=4,zero=1,stages=3+4`."""

from __future__ import annotations

from typing import Any

from einmap.distribute.training.plan import DIMS, TrainingPlan
from einmap.errors import SpecError, did_you_mean
from einmap.visible import short

NUMBERS = (*DIMS, "chunks", "micro_batch", "zero")
KEYS = (*NUMBERS, "sequence_parallel", "stages", "schedule", "recompute", "meshes")
"""Fields of a plan that a step which is run may have: all but what overlaps, which changes no result."""
WANTED = {
    "stages": "Einsums of each stage, such as 3+4",
    "sequence_parallel": "true or false",
    "meshes": "dp and tp of each stage, such as 1x4+1x2",
}


def plan_of_text(text: str) -> TrainingPlan:
    """The plan that a text says, fields that are missing as in `TrainingPlan`. Raises SpecError for any other text."""
    fields: dict[str, Any] = {}
    for part in "".join(text.split()).split(","):
        key, equals, value = part.partition("=")
        if key not in KEYS or not equals:
            hint = f"write {key}=VALUE" if key in KEYS else did_you_mean(key, KEYS, listing="fields")
            raise SpecError(f"{short(part)} is not a field of a plan and its value", hint=hint)
        if key in fields:
            raise SpecError(f"{key} is given twice")
        try:
            fields[key] = _read(key, value)
        except (ValueError, KeyError):
            raise SpecError(f"{key} is {short(value)}; expected {WANTED.get(key, 'a whole number')}") from None
    if "meshes" in fields:
        # as many devices in a row as sub-meshes
        fields.setdefault("pp", len(fields["meshes"]))
    return TrainingPlan(**fields)


def _read(key: str, value: str) -> Any:
    if key in NUMBERS:
        return int(value)
    if key == "sequence_parallel":
        return {"true": True, "false": False}[value]
    if key == "meshes":
        return tuple(tuple(int(number) for number in part.split("x")) for part in value.split("+"))
    return tuple(int(number) for number in value.split("+")) if key == "stages" else value
