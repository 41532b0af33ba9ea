"""Checks of a whole workload: sizes that nothing uses, or that miss, names that hide others, Einsums that disagree."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Affine, Lookup, Written
from einmap.einsum.spaces.space import Space, index_ends
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, Note, NotSupportedError, SpecError, closest
from einmap.expressions.sets import NameSet
from einmap.spec.binding.symbols import CascadeFacts
from einmap.spec.binding.workload.read_workload import WrittenAccess, WrittenEinsum
from einmap.spec.names import RESERVED
from einmap.spec.raw import Path, Raw, RawMap, place
from einmap.spec.schema.workload import WorkloadInput

type Place = Callable[..., At]
"""Where the field of a path is written."""


def unused_sizes(given: WorkloadInput, einsums: Sequence[WrittenEinsum], at: Place) -> list[Note]:
    """Warnings about sizes and bounds that no Einsum has a use for: they are most likely misspelt."""
    notes: list[Note] = []
    variables = {v for e in einsums for v in e.variables}
    for variable in given.iteration_space_shape:
        if variable not in variables:
            text = f"iteration_space_shape of {variable!r} is not used: no Einsum has this rank variable"
            text += _suggestion(variable, variables)
            notes.append(Note(text, at("workload", "iteration_space_shape", variable)))
    everywhere = {rank for e in einsums for rank in _ranks(e)}
    expressions = [*given.rank_sizes.values(), given.n_instances]
    for einsum in (einsum for einsum in einsums if einsum.copy_of is None):
        own = [*einsum.given.rank_sizes.values(), einsum.given.n_instances]
        expressions += own
        for rank in einsum.given.rank_sizes:
            if rank not in _ranks(einsum) | _words(own):
                text = f"the size of rank {rank!r} is not used: Einsum {einsum.name!r} has no such rank"
                text += _suggestion(rank, _ranks(einsum))
                notes.append(Note(text, at(*einsum.path, "rank_sizes", rank)))
    for rank in given.rank_sizes:
        if rank not in everywhere | _words(expressions):
            text = f"the size of rank {rank!r} is not used: no tensor has this rank"
            text += _suggestion(rank, everywhere)
            notes.append(Note(text, at("workload", "rank_sizes", rank)))
    return notes


def hidden_variables(
    raw: Raw | None, facts: CascadeFacts, tables: Sequence[Mapping[str, NameSet]], at: Place
) -> list[Note]:
    """Warnings about variables that expressions of the architecture cannot see; `raw`: the variables as written."""
    notes: list[Note] = []
    kinds = {**dict.fromkeys(RESERVED, "set"), **dict.fromkeys(facts.rank_variables, "rank variable")}
    kinds |= dict.fromkeys(facts.tensors, "tensor")
    for name in raw.keys() if isinstance(raw, RawMap) else ():
        is_rename = any(name in table for table in tables)
        kind = kinds.get(name, "rename" if is_rename else None)
        if kind is not None:
            text = f"the variable {name!r} has the name of a {kind}, which wins in expressions"
            notes.append(Note(text, at("variables", name)))
    return notes


def disagreements(einsums: Iterable[Einsum], at_of: Callable[[str], At]) -> list[EinmapError]:
    """Errors where two Einsums disagree about a variable or a tensor; `at_of`: where an Einsum is written."""
    problems: list[EinmapError] = []
    extents: dict[str, tuple[str, int]] = {}
    bits: dict[str, tuple[str, float]] = {}
    lasting: dict[str, tuple[str, bool]] = {}
    for einsum in einsums:
        at = at_of(einsum.name)
        for variable, extent in einsum.bounds:
            other, size = extents.setdefault(variable, (einsum.name, extent))
            if size != extent:
                text = f"rank variable {variable!r} has {size} values in {other!r} but {extent} in {einsum.name!r}"
                problems.append(SpecError(text, at=at, hint="use another name in one of them"))
        for access in einsum.accesses:
            other, wide = bits.setdefault(access.tensor, (einsum.name, access.bits_per_value))
            if wide != access.bits_per_value:
                text = f"{access.tensor!r} has {wide} bits in {other!r} but {access.bits_per_value} in {einsum.name!r}"
                problems.append(SpecError(text, at=at))
            other, kept = lasting.setdefault(access.tensor, (einsum.name, access.persistent))
            if kept != access.persistent:
                text = f"{access.tensor!r} is persistent in only one of the Einsums {other!r} and {einsum.name!r}"
                problems.append(SpecError(text, at=at))
    return problems


def uneven_steps(workload: Workload, at_of: Callable[[str], At]) -> list[EinmapError]:
    """Errors where Einsums of one recurrence begin at other steps, or are there more often than others."""
    problems: list[EinmapError] = []
    for recurrence in workload.recurrences:
        steps = [workload.by_name[name] for name in recurrence.einsums]
        for einsum in (e for e in steps if e.gathers):
            text = (
                f"Einsum {einsum.name!r} is a part of a recurrence; rows that are looked up there are not supported yet"
            )
            hint = "look them up in an Einsum before the recurrence"
            problems.append(NotSupportedError(text, at=at_of(einsum.name), hint=hint))
        for what in ("begins at", "has n_instances of"):
            values = [
                dict(e.first_values).get(recurrence.variable, 0) if what == "begins at" else e.n_instances
                for e in steps
            ]
            other = next((i for i, value in enumerate(values) if value != values[0]), None)
            if other is not None:
                text = (
                    f"the recurrence over {recurrence.variable!r} {what} {values[0]} in {steps[0].name!r} but "
                    f"{values[other]} in {steps[other].name!r}"
                )
                problems.append(
                    SpecError(text, at=at_of(steps[other].name), hint="its Einsums run step by step together")
                )
    return problems


@dataclass(frozen=True)
class Tables:
    """The sizes of what is looked up. `einsums`: all of the workload, as they are written.

    `size_of` (None where a rank has none) and `space_of` evaluate what is written.
    """

    root: RawMap
    einsums: Mapping[Path, WrittenEinsum]
    size_of: Callable[[WrittenEinsum, str], int | None]
    space_of: Callable[[WrittenEinsum], Space]

    def sized(self, einsum: WrittenEinsum, access: WrittenAccess) -> Written:
        """How a tensor is gathered, with the size of each rank that is looked up. Raises SpecError without one."""
        written: list[tuple[str, Affine | Lookup]] = []
        for rank, index in access.gathered:
            if isinstance(index, Lookup):
                size = self.size_of(einsum, rank) or self._elsewhere(access.name, rank)
                if size is None:
                    raise SpecError(
                        f"rank {rank} of tensor {access.name!r}, which Einsum {einsum.name!r} looks up in "
                        f"{index.tensor!r}, has no size",
                        at=place(self.root, access.path),
                        hint=f"add it to workload.rank_sizes, for example {rank}: 1024",
                    )
                index = replace(index, size=size)  # noqa: PLW2901
            written.append((rank, index))
        return tuple(written)

    def _elsewhere(self, tensor: str, rank: str) -> int | None:
        """The size of a rank as Einsums use it that do not look it up; None where there are none."""
        sizes = []
        for other in self.einsums.values():
            for access in other.accesses:
                index = dict(access.written).get(rank) if access.name == tensor else None
                if isinstance(index, Affine):
                    space = self.space_of(other)
                    low = dict(space.low)
                    extents = {v: high - low[v] + 1 for v, high in space.high}
                    sizes.append(index_ends(index, low, extents, space.cuts)[1] + 1)
        return max(sizes, default=None)


def _ranks(einsum: WrittenEinsum) -> set[str]:
    return {rank for access in einsum.accesses for rank, _ in access.written}


def _suggestion(name: str, names: Iterable[str]) -> str:
    guess = closest(name, names)
    return f"; did you mean {guess!r}?" if guess else ""


def _words(expressions: Iterable[object]) -> set[str]:
    return {word for text in expressions if isinstance(text, str) for word in re.findall(r"\w+", text)}
