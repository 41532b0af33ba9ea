"""The workload as written: raw Einsums parsed, renames listed, the cascade checked for shape."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from einmap.einsum.notation.parse import (
    Use,
    checked_projection,
    format_projection,
    parse_einsum,
    rank_of_variable,
    rank_with_index,
    same_indices,
    with_operands,
)
from einmap.einsum.operation import Operation, check_operation, parse_operation, product_of
from einmap.einsum.spaces.projection import Projection, Written, by_position, lookups
from einmap.einsum.spaces.recurrence import recurrences
from einmap.errors import EinmapError, ManyErrors, SpecError, did_you_mean, raise_all
from einmap.expressions.evaluator.syntax import shortened
from einmap.spec.binding.symbols import Rename, unknown_einsum
from einmap.spec.names import check_name
from einmap.spec.raw import Path, Raw, RawList, RawMap, RawScalar, place, placed
from einmap.spec.schema.base import check
from einmap.spec.schema.workload import AccessInput, EinsumInput, EinsumRenamesInput, RenameInput, RenamesInput
from einmap.visible import short


@dataclass(frozen=True)
class WrittenAccess:
    """One access as written, its index expressions parsed.

    `operand`: what the operation calls it, another name than the tensor's where that is used by different indices;
    `by_position`: no rank is written out; `gathered`: the projection with ranks that are looked up in other tensors.
    """

    name: str
    projection: Projection
    output: bool
    given: AccessInput
    path: Path
    operand: str
    by_position: bool = False
    gathered: Written = ()

    @property
    def written(self) -> Written:
        """How the tensor is indexed, ranks that are looked up in their places."""
        return self.gathered or self.projection


@dataclass(frozen=True)
class WrittenEinsum:
    """One Einsum as written, its strings parsed."""

    name: str
    accesses: tuple[WrittenAccess, ...]
    given: EinsumInput
    operation: Operation
    path: Path
    copy_of: str | None = None
    """The tensor that the Einsum copies, if it stands in no file but was put in (see `second_names`)."""
    notes: tuple[str, ...] = ()

    @cached_property
    def variables(self) -> tuple[str, ...]:
        """Rank variables in order of first use, inputs first."""
        outputs_last = sorted(self.accesses, key=lambda a: a.output)
        return tuple(dict.fromkeys(v for a in outputs_last for _, index in a.projection for v, _ in index.terms))


class WorkloadReader:
    """Reads Einsums and renames; problems are collected in `problems`.

    `already_read`: Einsums by the id of the raw tree that they were read from.
    """

    def __init__(self, root: RawMap, problems: list[EinmapError], already_read: Mapping[int, WrittenEinsum]) -> None:
        self.root = root
        self.problems = problems
        self.already_read = already_read

    def read_einsums(self, raw: Raw) -> Iterator[WrittenEinsum | None]:
        """All Einsums, nested lists flattened; None for those with problems."""
        listed = raw.get("einsums") if isinstance(raw, RawMap) else None
        if listed is None:
            return
        for path, item in _flat(listed, ("workload", "einsums")):
            try:
                yield self.read_einsum(item, path)
            except EinmapError as problem:
                if not isinstance(problem, ManyErrors):
                    problem.at = problem.at or place(self.root, path)
                self.problems.append(problem)

    def read_einsum(self, raw: Raw, path: Path) -> WrittenEinsum | None:
        """One Einsum, a string or a dictionary. Raises SpecError."""
        if id(raw) in self.already_read:
            return replace(self.already_read[id(raw)], path=path)
        text_path = (*path, "einsum")
        if isinstance(raw, RawScalar):
            raw, text_path = RawMap((("einsum", raw),), at=raw.at), path
        if isinstance(raw, RawMap) and raw.get("einsum") is None and any("[" in key for key, _ in raw.items):
            raise SpecError(
                f"field {raw.keys()[0]!r} of an Einsum looks like part of an Einsum string",
                hint="quote Einsum strings that contain ': '",
            )
        given = check(EinsumInput, raw, self.root, path, self.problems)
        if given is None:
            return None
        if given.einsum is not None:
            return self.read_concise(given, path, text_path)
        if given.name is None:
            raise SpecError("an Einsum needs a name (or the concise form in `einsum`)")
        check_name(given.name, "Einsum", place(self.root, (*path, "name")))
        found: list[WrittenAccess] = []
        problems: list[EinmapError] = []
        for index, access in enumerate(given.tensor_accesses):
            try:
                found.append(self.read_access(access, (*path, "tensor_accesses", index)))
            except EinmapError as problem:
                problems.append(problem)
        raise_all(problems)
        accesses = tuple(with_indices(found))
        if not any(a.output for a in accesses):
            raise SpecError(f"Einsum {given.name!r} has no output", hint="mark one access with output: true")
        accesses, operands, notes = self.joined(accesses, given)
        indices = {index.tensor for a in accesses for index in lookups(a.gathered).values()}
        inputs = [operand for operand in operands if not any(a.output and a.name == operand for a in accesses)]
        factors = [operand for operand in inputs if operand not in indices]
        reduction = given.reduction or "sum"
        several = next((a.name for a in accesses if a.operand != a.name), None)
        if given.operation and several and re.search(rf"\b{several}\b", given.operation):
            raise SpecError(
                f"Einsum {given.name!r} uses tensor {several!r} by different indices, and its operation "
                f"{shortened(given.operation)} does not say which of them is where",
                at=place(self.root, (*path, "operation")),
                hint=f"write the Einsum as a string with the indices, such as {{einsum: {given.name}[m, n] = "
                f"{several}[m, k] - {several}[n, k]}}",
            )
        if given.operation:
            check_operation(given.operation, inputs)
        operation = (
            parse_operation(given.operation, inputs, reduction) if given.operation else product_of(factors, reduction)  # type: ignore[arg-type]
        )
        check_lookups(given.name, accesses)
        return WrittenEinsum(given.name, accesses, given, operation, path, notes=notes)

    def joined(
        self, accesses: tuple[WrittenAccess, ...], given: EinsumInput
    ) -> tuple[tuple[WrittenAccess, ...], tuple[str, ...], tuple[str, ...]]:
        """The accesses, uses of a tensor by the same indices joined; the operand of each as written; and notes.

        Raises SpecError for other repeats.
        """
        uses = [Use(a.name, a.projection, a.name, a.by_position, a.gathered) for a in accesses]
        named = with_operands(uses, {a.name for a in accesses})
        firsts: dict[str, WrittenAccess] = {}
        by_name: dict[str, WrittenAccess] = {}
        for access, use in zip(accesses, named, strict=True):
            first = firsts.setdefault(access.name, access)
            by_name.setdefault(use.operand, replace(access, operand=use.operand))
            if first is access:
                continue
            if access.output or first.output:
                what = "written twice" if access.output and first.output else "both input and output"
                text = f"tensor {access.name!r} is {what} in Einsum {given.name!r}"
                raise SpecError(text, at=place(self.root, access.path), hint="rename one of them")
            if given.is_copy_operation:
                raise SpecError(f"copy Einsum {given.name!r} needs exactly one input, found {short(access.name)} twice")
            for field in ("persistent", "bits_per_value", "backing_storage_size_scale"):
                if getattr(first.given, field) != getattr(access.given, field):
                    text = f"{field} of tensor {access.name!r} differs between its two uses in Einsum {given.name!r}"
                    raise SpecError(text, at=place(self.root, access.path), hint="give it the same in both")
        return tuple(by_name.values()), tuple(use.operand for use in named), turned(named, str(given.name))

    def read_concise(self, given: EinsumInput, path: Path, text_path: Path) -> WrittenEinsum:
        """An Einsum given as a string, with attributes added by `tensor_accesses`."""
        assert given.einsum is not None
        with placed(self.root, text_path):
            parsed = parse_einsum(given.einsum, given.reduction or "sum")
        times = given.einsum.count("[") - 1
        if given.is_copy_operation and times > len({use.tensor for use in parsed.uses}):
            raise SpecError(f"copy Einsum {parsed.output[0]!r} needs exactly one input, found {times}")
        if given.operation is not None:
            raise SpecError("the Einsum string already gives the operation; leave out `operation`")
        with placed(self.root, text_path):
            for tensor, _ in (*parsed.inputs, parsed.output):
                check_name(tensor, "tensor", None, reserved=True)
        name = parsed.output[0] if given.name is None else given.name
        with placed(self.root, (*path, "name")):
            check_name(name, "Einsum", None)
        twice = _first_repeated(access.name for access in given.tensor_accesses)
        if twice is not None:
            index, tensor = twice
            at = place(self.root, (*path, "tensor_accesses", index))
            raise SpecError(f"tensor {tensor!r} is listed twice in tensor_accesses", at=at, hint="join the two entries")
        extra = {access.name: access for access in given.tensor_accesses}
        tensors = [parsed.output[0], *(t for t, _ in parsed.inputs)]
        for index, (tensor, access) in enumerate(extra.items()):
            here = (*path, "tensor_accesses", index)
            if tensor not in tensors:
                raise SpecError(
                    f"tensor {tensor!r} is not in the Einsum string {given.einsum!r}",
                    at=place(self.root, here),
                    hint=did_you_mean(tensor, tensors),
                )
            for set_already in ("projection", "output"):
                if set_already in access.model_fields_set:
                    raise SpecError(
                        f"{set_already} of tensor {tensor!r} is already set by the Einsum string",
                        at=place(self.root, (*here, set_already)),
                    )

        places: dict[str, Path] = {tensor: (*path, "tensor_accesses", i) for i, tensor in enumerate(extra)}

        def made(use: Use, output: bool) -> WrittenAccess:
            given = extra.get(use.tensor, AccessInput(name=use.tensor))
            at = places.get(use.tensor, path)
            return WrittenAccess(
                use.tensor, use.projection, output, given, at, use.operand, use.by_position, use.gathered
            )

        inputs = tuple(made(use, False) for use in parsed.uses)
        output = made(Use(*parsed.output, parsed.output[0]), True)
        with placed(self.root, text_path):
            check_lookups(name, inputs)
        return WrittenEinsum(name, (*inputs, output), given, parsed.operation, path, notes=turned(parsed.written, name))

    def read_access(self, given: AccessInput, path: Path) -> WrittenAccess:
        """One access of the verbose form."""
        check_name(given.name, "tensor", place(self.root, (*path, "name")), reserved=True)
        if given.projection is None:
            raise SpecError(f"tensor {given.name!r} needs a projection", at=place(self.root, path))
        with placed(self.root, (*path, "projection")):
            if isinstance(given.projection, list):
                ranks: list[Any] = [rank_of_variable(v, given.name) for v in given.projection]
            else:
                ranks = [rank_with_index(rank, str(index), given.name) for rank, index in given.projection.items()]
            written = checked_projection(ranks, given.name)
            projection, gathered = by_position(written), written if lookups(written) else ()
            if gathered and given.output:
                raise SpecError(
                    f"the output {given.name!r} is indexed by values of another tensor",
                    hint="only inputs are: a scatter is not supported",
                )
        plain = isinstance(given.projection, list)
        return WrittenAccess(given.name, projection, bool(given.output), given, path, given.name, plain, gathered)

    def read_renames(self, einsums: list[str]) -> dict[str, list[Rename]]:
        """The top-level renames by Einsum name; `default` is for all."""
        raw = self.root.get("renames")
        if raw is None:
            return {}
        given = check(RenamesInput, raw, self.root, ("renames",), self.problems)
        raise_all(self.problems)
        assert given is not None
        renames: dict[str, list[Rename]] = {}
        twice = _first_repeated(entry.name for entry in given.einsums)
        if twice is not None:
            at = place(self.root, ("renames", "einsums", twice[0]))
            raise SpecError(f"renames of {twice[1]!r} are given twice", at=at, hint="join the two entries")
        for index, entry in enumerate(given.einsums):
            path: Path = ("renames", "einsums", index)
            if entry.name not in ("default", *einsums):
                raise unknown_einsum(entry.name, ["default", *einsums], place(self.root, path))
            renames[entry.name] = self.rename_list(entry, path)
        return renames

    def rename_list(self, entry: EinsumRenamesInput, path: Path) -> list[Rename]:
        """Renames of tensors, then those of rank variables."""
        tensors = self.renames_of(entry.tensor_accesses, (*path, "tensor_accesses"))
        return _once([*tensors, *self.renames_of(entry.rank_variables, (*path, "rank_variables"))])

    def renames_of(self, given: dict[str, Any] | list[RenameInput], path: Path) -> list[Rename]:
        """Either form of a list of renames."""
        if isinstance(given, dict):
            renames = [Rename(name, source, None, place(self.root, (*path, name))) for name, source in given.items()]
        else:
            places = [place(self.root, (*path, i)) for i, _ in enumerate(given)]
            renames = [Rename(r.name, r.source, r.expected_count, at) for r, at in zip(given, places, strict=True)]
        for rename in renames:
            check_name(rename.name, "rename", rename.at, reserved=True)
        return _once(renames)

    def check_cascade(self, einsums: list[WrittenEinsum]) -> None:
        """Names, ranks, writers and copies agree across Einsums."""

        def complain(text: str, einsum: WrittenEinsum, hint: str | None = None) -> None:
            self.problems.append(SpecError(text, at=place(self.root, einsum.path), hint=hint))

        ranks: dict[str, tuple[WrittenEinsum, frozenset[str]]] = {}
        writer: dict[str, WrittenEinsum] = {}
        names: dict[str, WrittenEinsum] = {}
        for einsum in einsums:
            if einsum.name in names or einsum.name == "Total":
                other = names.get(einsum.name)
                why = f"used twice (also {place(self.root, other.path)})" if other else "reserved"
                complain(f"Einsum name {einsum.name!r} is {why}", einsum)
            names[einsum.name] = einsum
            for access in einsum.accesses:
                these = frozenset(rank for rank, _ in access.written)
                first, those = ranks.setdefault(access.name, (einsum, these))
                if these != those:
                    complain(
                        f"tensor {access.name!r} has ranks {sorted(these)} in Einsum {einsum.name!r} "
                        f"but {sorted(those)} in {first.name!r}",
                        einsum,
                    )
                if access.output and access.name in writer:
                    complain(
                        f"tensor {access.name!r} is written by {writer[access.name].name!r} and by {einsum.name!r}",
                        einsum,
                    )
                if access.output:
                    writer.setdefault(access.name, einsum)
            n_inputs = sum(not a.output for a in einsum.accesses)
            if einsum.given.is_copy_operation and n_inputs != 1:
                complain(f"copy Einsum {einsum.name!r} needs exactly one input, found {n_inputs}", einsum)
        self.check_order(einsums, writer, complain)

    def check_order(self, einsums: list[WrittenEinsum], writer: dict[str, WrittenEinsum], complain: Any) -> None:
        """Producers come before consumers, or in a recurrence before the next step; another cycle is named."""
        position = {einsum.name: i for i, einsum in enumerate(einsums)}
        is_cyclic = False
        for i, einsum in enumerate(einsums):
            for access in einsum.accesses:
                source = writer.get(access.name)
                if access.output or source is None or position[source.name] < i:
                    continue
                if not access.gathered and (_cycle(einsum, writer, access.name) or _cycle(source, writer)):
                    is_cyclic = True
                    continue
                complain(
                    f"Einsum {einsum.name!r} reads {access.name!r} before Einsum {source.name!r} writes it",
                    einsum,
                    hint=f"move Einsum {source.name!r} up",
                )
        if is_cyclic and not self.problems:
            listed = [(e.name, [(a.name, a.projection, a.output) for a in e.accesses]) for e in einsums]

            def no_order(at: int, text: str, hint: str | None) -> None:
                cycle = _cycle(einsums[at], writer)
                complain(f"the cascade has a cycle: {' -> '.join(cycle)}; {text}" if cycle else text, einsums[at], hint)

            recurrences(listed, no_order)


def with_indices(accesses: list[WrittenAccess]) -> list[WrittenAccess]:
    """The accesses of the long form, and those of index tensors that it does not list, each right behind the first."""
    found: list[WrittenAccess] = []
    known = [(access.name, access.projection) for access in accesses]
    for access in accesses:
        found.append(access)
        for index in lookups(access.gathered).values():
            if not any(name == index.tensor and same_indices(p, index.projection) for name, p in known):
                known.append((index.tensor, index.projection))
                given = AccessInput(name=index.tensor)
                found.append(WrittenAccess(index.tensor, index.projection, False, given, access.path, index.tensor))
    return found


def check_lookups(einsum: str, accesses: Iterable[WrittenAccess]) -> None:
    """Raise SpecError where a gathered tensor, or one whose values are indices, is used twice, by different indices."""
    accesses = tuple(accesses)
    special = {a.name: "gathered" for a in accesses if a.gathered}
    special |= {index.tensor: "an index" for a in accesses for index in lookups(a.gathered).values()}
    for access in accesses:
        if access.operand != access.name and access.name in special:
            raise SpecError(
                f"Einsum {einsum!r} uses tensor {access.name!r}, which is {special[access.name]}, by different "
                "indices; that is not supported",
                hint="gather in an Einsum of its own, and read its result",
            )
        if access.gathered and special[access.name] == "an index":
            raise SpecError(f"tensor {access.name!r} is gathered and is an index in Einsum {einsum!r}")


def turned(uses: Iterable[Use], einsum: str) -> tuple[str, ...]:
    """Notes on uses that look like the transpose of another one and are not, since ranks go by their names."""
    problems: list[str] = []
    firsts: dict[str, Use] = {}
    for use in uses:
        first = firsts.setdefault(use.operand, use)
        if first.by_position and use.by_position and first.projection != use.projection:
            name, ranks = use.tensor, [rank for rank, _ in first.projection]
            other = ", ".join(f"{rank}: {index}" for rank, (_, index) in zip(ranks, use.projection, strict=True))
            problems.append(
                f"{name}[{format_projection(first.projection)}] and {name}[{format_projection(use.projection)}] "
                f"in Einsum {einsum!r} are the same, since a rank variable by itself stands for the rank of its name; "
                f"for the transpose write {name}[{other}]"
            )
    return tuple(dict.fromkeys(problems))


def _first_repeated(names: Iterable[str]) -> tuple[int, str] | None:
    """Position and name of the first name that occurred before, or None."""
    seen: set[str] = set()
    for index, name in enumerate(names):
        if name in seen:
            return index, name
        seen.add(name)
    return None


def _once(renames: list[Rename]) -> list[Rename]:
    """The renames of one place. Raises SpecError when two have the same name."""
    twice = _first_repeated(rename.name for rename in renames)
    if twice is not None:
        raise SpecError(f"rename {twice[1]!r} is given twice", at=renames[twice[0]].at, hint="leave out one of them")
    return renames


def _flat(raw: Raw, path: Path) -> Iterator[tuple[Path, Raw]]:
    if isinstance(raw, RawList):
        for index, item in enumerate(raw.items):
            yield from _flat(item, (*path, index))
    else:
        yield path, raw


def _cycle(start: WrittenEinsum, writer: Mapping[str, WrittenEinsum], through: str | None = None) -> list[str] | None:
    """Tensors around a cycle through `start`, or None; `through`: an input of it that the cycle leads through."""
    stack = [(start, [a.name for a in start.accesses if a.output][:1])]
    seen: set[str] = set()
    while stack:
        einsum, trail = stack.pop()
        for access in einsum.accesses:
            source = writer.get(access.name)
            if access.output or source is None or (einsum is start and access.name != (through or access.name)):
                continue
            if source.name == start.name:
                return [*trail, access.name]
            if source.name not in seen:
                seen.add(source.name)
                stack.append((source, [*trail, access.name]))
    return None
