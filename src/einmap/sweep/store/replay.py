"""A point of a store as a specification with its mapping."""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.yaml.load import read_text
from einmap.spec.raw import RawMap, from_python, set_value
from einmap.spec.spec import Spec
from einmap.sweep.bases import with_settings
from einmap.sweep.store.store import KeptSweep, Store


def replayed(store: Store, kept: KeptSweep, number: int, workload: str) -> Spec:
    """The specification of a workload at a point, with the mapping or plan that was found; as it would stand in a file.

    Raises SpecError where the store has no such point, and where it has no mapping, with the reason.
    """
    place = kept.outline.workloads.index(workload)
    text, settings, outcome = store.case(kept, number, place)
    if outcome is None or not outcome.done:
        why = "it is not finished" if outcome is None else f"{outcome.status}: {outcome.reason}"
        raise SpecError(f"point {number} has no mapping of {workload}: {why}")
    spec = with_settings(Spec(read_text(text)[0]), settings)
    key = "distribution" if kept.outline.action == "plan" else "mapping"
    changed = set_value(spec.raw, (key,), from_python(read_text(outcome.mapping)[0].get(key)))
    assert isinstance(changed, RawMap)
    return Spec(changed)
