"""Problems whose "proven" answer was beaten: the specification, what was asked, and the mapping that beat it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import einmap
from einmap.spec.spec import Spec

PROBLEMS = json.loads((Path(__file__).parent / "problems.json").read_text())


@dataclass(frozen=True)
class Beaten:
    """One of `problems.json`: `spec` and `better`, the same with a mapping; `goal`, `semantics`, `options` of the call."""

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


def problem(name: str) -> Spec:
    """The specification of a problem, without a mapping."""
    return Spec.from_dict(PROBLEMS[name]["spec"])


def beaten(name: str) -> Beaten:
    """A problem with the mapping that beat an answer."""
    data = PROBLEMS[name]
    return Beaten(
        problem(name),
        Spec.from_dict({**data["spec"], "mapping": data["mapping"]}),
        data.get("goal", "energy_delay_product"),
        data.get("semantics", "exact"),
        data.get("options", {}),
    )
