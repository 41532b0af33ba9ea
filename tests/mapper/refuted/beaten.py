"""Problems whose "proven" answer was beaten: the specification, what was asked, and the mapping that beat it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import einmap
from einmap.spec.spec import Spec

DATA = Path(__file__).parent / "data"


@dataclass(frozen=True)
class Beaten:
    """One file of `data`: `spec` and `better`, the same with a mapping; `goal`, `semantics`, `options` of the call."""

    spec: Spec
    better: Spec
    goal: str
    semantics: str
    options: dict[str, Any]

    def search(self) -> einmap.MapResult:
        """What the mapper says."""
        return einmap.map_workload(self.spec, metrics=self.goal, semantics=self.semantics, **self.options)

    def value(self, spec: Spec) -> float:
        """The objective of a specification with a mapping."""
        cost = einmap.evaluate(spec, semantics=self.semantics)
        return {"energy": cost.energy, "latency": cost.latency, "energy_delay_product": cost.edp}[self.goal]


def beaten(name: str) -> Beaten:
    """A file by its name without ending: a JSON with everything, or two YAML files, one of them `-better`."""
    file = DATA / f"{name}.json"
    if not file.exists():
        spec, better = (einmap.load(DATA / f"{name}{end}.yaml") for end in ("", "-better"))
        return Beaten(spec, better, "energy_delay_product", "exact", {})
    data = json.loads(file.read_text())
    (goal,) = data.get("goals", ["energy_delay_product"])
    spec, better = data["spec"], {**data["spec"], "mapping": data["mapping"]}
    return Beaten(
        *(Spec.from_dict(own) for own in (spec, better)),
        goal,
        data.get("semantics", "exact"),
        data.get("options", {}),
    )
