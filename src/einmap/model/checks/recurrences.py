"""Recurrences over a rank: what of the model does not know them."""

from __future__ import annotations

from einmap.model.counting.semantics import Semantics
from einmap.spec.spec import Spec


def check_recurrences_known(spec: Spec, rules: Semantics) -> None:
    """Raise NotSupportedError where a recurrence meets a preset or an option that has no rule for it."""
    if rules.buffer_above_split != "one":
        spec.refuse_recurrences(f"the preset {rules.name!r}", "evaluate with semantics: exact")
    if spec.model_options.overlap_einsums:
        spec.refuse_recurrences("overlap_einsums", "leave it out: each step waits for the one before")
