"""Names that a workload does not have yet, of tensors with their Einsums and of rank variables; places of Einsums."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from einmap.einsum.notation.parse import free_name
from einmap.einsum.rewrites.edit import check_variable_name
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, SpecError


class Names:
    """Names that are taken; what is given out is taken from then on."""

    def __init__(self, workload: Workload) -> None:
        self._taken = {*workload.tensors, *workload.einsum_names}
        self._spans: dict[RankVar, set[tuple[int, int]]] = {}
        for einsum in workload.einsums:
            first = dict(einsum.first_values)
            for variable, extent in einsum.bounds:
                self._spans.setdefault(variable, set()).add((first.get(variable, 0), extent))

    def free(self, name: str) -> str:
        """The name, or another one that begins so."""
        found = free_name(name, self._taken) if name in self._taken else name
        self._taken.add(found)
        return found

    def variable(self, rank: Rank, size: int, other_than: Collection[RankVar] = ()) -> tuple[Affine, str]:
        """A rank variable that runs over all indices of a rank, and its bounds; one that does so already, if any."""
        name = rank.lower()
        try:
            check_variable_name(name)
        except SpecError:
            name += "_"
        number = 1
        candidate = name
        while candidate in other_than or self._spans.get(candidate, {(0, size)}) != {(0, size)}:
            number += 1
            candidate = f"{name}_{number}"
        self._spans[candidate] = {(0, size)}
        return Affine(((candidate, 1),)), f"0 <= {candidate} < {size}"


@contextmanager
def placed(einsum: str, at_of: Callable[[str], At | None]) -> Iterator[None]:
    """Errors that are raised within are said of the place where an Einsum is written."""
    try:
        yield
    except EinmapError as problem:
        problem.at = problem.at or at_of(einsum)
        raise
