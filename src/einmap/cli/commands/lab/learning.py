"""The cost model that `einmap search` begins with, and the one that it saves."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from einmap.cli.output import print_hint
from einmap.errors import At, SpecError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from einmap.cli.writing.target import Target
    from einmap.search.cost_model.cost_model import CostModel
    from einmap.search.experiment import Run
    from einmap.search.problem import SearchProblem


def check_new_runs(target: Target | None, n: int) -> None:
    """Raises SpecError where a model is to be saved and all runs are in the journal, which has no evaluations."""
    if target is not None and not n:
        raise SpecError(
            "nothing would be learnt: all runs are in the journal, which does not keep what they evaluated",
            at=At(str(target.path)),
            hint="leave the journal out, or name another one",
        )


def write_model(target: Target, begun_from: CostModel | None, problem: SearchProblem, runs: Sequence[Run]) -> None:
    """Write the model of what the runs evaluated; those of the journal are left out, and a note says so."""
    from einmap.search.cost_model.model_file import model_bytes, with_evaluations

    evaluated = [run.evaluated for run in runs if run.evaluated is not None]
    model = with_evaluations(begun_from, problem, evaluated)
    if not any(math.isfinite(value) for value in model.targets.tolist()):
        print_hint(f"no cost model was written to {target.path}: no mapping that was evaluated is valid")
        return
    target.write(model_bytes(model))
    missing = len(runs) - len(evaluated)
    left_out = f"; {missing} runs of the journal are not in it: it does not keep what they evaluated" if missing else ""
    print_hint(f"wrote a cost model of {len(model.targets):,} mappings to {target.path}{left_out}")
