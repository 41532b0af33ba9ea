"""Tables on the import of a model or of files of another tool."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.errors import SpecError, raise_all
from einmap.frontends.cascade.imported import Imported
from einmap.frontends.foreign import LeftOut, Translation
from einmap.report.text.layout import Table, section


def model_summary(result: Imported) -> RenderableType:
    """Import of a model: operators with counts, those without Einsum form, and how large the cascade is."""
    texts = [
        (operator, f"{count:,}", f"{result.barrier_counts[operator]:,}" if result.barrier_counts.get(operator) else "-")
        for operator, count in sorted(result.operators.items(), key=lambda entry: (-entry[1], entry[0]))
    ]
    operators = section("Operators", Table(("operator", "in the model", "without Einsum form"), texts))
    if not result.workload:
        return operators
    workload, macs = result.spec.workload, result.n_multiply_accumulates
    facts = (
        f"{len(workload.einsums):,} Einsums over {len(workload.tensors):,} tensors; "
        f"{macs:,} multiply-accumulates in contractions, {workload.n_computes:,} operations in all"
    )
    hidden = [] if result.hidden_text is None else [Text(result.hidden_text)]
    return Group(*hidden, Text(facts), operators)


def left_out_table(left_out: tuple[LeftOut, ...]) -> RenderableType:
    """Fields without counterpart: place, key, and why."""
    texts = [(str(entry.at), entry.key, entry.reason) for entry in left_out]
    return section(
        f"Without counterpart: {len(left_out)}", Table(("place", "key", "why it is left out"), texts, left=range(3))
    )


def check_complete(translation: Translation) -> None:
    """Raise SpecError, with the place of each, when something is left out: what `--strict` asks for."""
    raise_all(
        [SpecError(f"{entry.key} has no counterpart: {entry.reason}", at=entry.at) for entry in translation.left_out]
    )
