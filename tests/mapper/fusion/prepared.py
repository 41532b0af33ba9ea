"""A cascade as the fused search has it before anything is listed."""

import einmap
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.problem.options import read_options
from einmap.progress import Progress


def prepared(spec: einmap.Spec, metrics: str = "energy", most_fused: int = 2) -> CascadeProblem:
    """Chains of each Einsum with so many fused loops at most."""
    found = CascadeProblem(spec, read_options(spec, metrics=metrics, workers=1, max_fused_loops=most_fused))
    found.prepare(Progress())
    return found
