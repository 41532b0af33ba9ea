"""Saving by fusion: the best mapping against the best one that fuses nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from einmap.mapper.result.result import MapResult
from einmap.model.cost_difference import Changed
from einmap.model.fusion import outside_bits, outside_memories
from einmap.progress import Progress, Report
from einmap.spec.spec import Spec


@dataclass(frozen=True)
class Saving:
    """Totals of the best unfused mapping (`before`) and of the best mapping (`after`), and the unfused search's result.

    `rows`: energy (J), latency (s), edp (J*s), and `outside`: bits read and written in the outermost memories, which
    are named behind it.
    """

    rows: tuple[Changed, ...]
    unfused: MapResult

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON."""
        totals = {row.name[0]: {"unfused": row.before, "best": row.after, "ratio": row.ratio} for row in self.rows}
        return {"optimal": self.unfused.optimal, "gap": self.unfused.gap, **totals}


def unfused_comparison(
    spec: Spec,
    result: MapResult,
    *,
    progress: Progress | None = None,
    **options: Any,
) -> Saving:
    """Set the best unfused mapping against the first mapping of `result`; it is searched unless `result` has it.

    `options`: those of the search that gave `result`, as of `best_mappings`; its metrics are taken from there.
    Raises NoMappingError where nothing unfused fits, or none was found in time.
    """
    from einmap.mapper.mapper import best_mappings  # takes long to import, which a report need not

    asked = {**options, "metrics": result.metrics[0], "semantics": result.cost.semantics}
    asked |= {"fuse": False, "max_pipeline_stages": 1}
    unfused = result.unfused or best_mappings(spec, progress=_named(progress or Progress()), **asked)
    # with layouts that are left open only what was found has an architecture
    spec, old, new = unfused.spec, unfused.cost, result.cost
    rows = [Changed("total", (name,), getattr(old, name), getattr(new, name)) for name in ("energy", "latency", "edp")]
    memories = sorted({name for _, name in outside_memories(spec)})
    outside = Changed("total", ("outside", *memories), outside_bits(old, spec), outside_bits(new, spec))
    return Saving((*rows, outside), unfused)


def _named(progress: Progress) -> Progress:
    """The token with a listener that hears that nothing is fused."""
    tell = progress.callback
    if tell is None:
        return progress

    def told(report: Report) -> None:
        tell(replace(report, what=f"without fusion, to compare: {report.what}"))

    return replace(progress, callback=told)
