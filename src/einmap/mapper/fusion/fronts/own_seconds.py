"""Work of an Einsum while it runs, without nodes that work ahead: where fused Einsums overlap (`model.overlap`).

The search of an outer nest keeps the columns of seconds, of which none is less without what the nodes of the nest take
that work ahead: that is the same for all completions of the nest.
"""

from __future__ import annotations

from collections.abc import Sequence

from einmap.arrays import Floats, Ints
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.objective.objective_kernels import BUSY, MOST_FORMS
from einmap.mapper.objective.objectives import OWN, is_form
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.objective.tolerances import TIE


def take_own(into: Archive, found: Archive, goals: Sequence[str], codes: Ints, ahead: Floats) -> None:
    """Put the completions of an outer nest into the front of their signature, with what is their own.

    `codes`: of the goals, as the kernel knows them; `ahead`: cost by column of what works ahead.
    """
    forms = [
        (i, (int(code) - BUSY) // MOST_FORMS)
        for i, (goal, code) in enumerate(zip(goals, codes, strict=True))
        if is_form(goal) and (int(code) - BUSY) % MOST_FORMS == 1
    ]
    numbers, columns = [i for i, _ in forms], [column for _, column in forms]
    for values, path in zip(found.values[: found.n], found.paths[: found.n], strict=True):
        row = values.copy()
        row[goals.index(OWN)] = (row[numbers] - ahead[columns]).max()
        if into.beats(row, TIE):
            continue
        if into.n == len(into.values):
            into.grow()
        into.n = kernels.take(row, path[2:], int(path[1]), int(path[0]), into.values, into.paths, into.n)
