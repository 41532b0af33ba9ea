"""The workload: from raw Einsums to frozen ones, and the symbols of each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

from einmap.einsum.einsum import PARTS, Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine, RankVar
from einmap.einsum.spaces.space import Constraint, Space, bounds, check_names, parse_constraint, within
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, ExpressionError, Note, SpecError, attempt, raise_all
from einmap.expressions.arithmetic import number, tensor_set
from einmap.expressions.scope import Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.binding.symbols import CascadeFacts, EinsumFacts, Rename, Symbols, apply_renames, symbols
from einmap.spec.binding.workload.checks import Tables, disagreements, hidden_variables, uneven_steps, unused_sizes
from einmap.spec.binding.workload.partial_sums import PartialSums
from einmap.spec.binding.workload.read_workload import WorkloadReader, WrittenAccess, WrittenEinsum
from einmap.spec.binding.workload.second_names import SecondNames, has_several_uses
from einmap.spec.names import is_name, wrong_case
from einmap.spec.raw import Path, Raw, RawMap, get_value, place, placed, to_python
from einmap.spec.schema.base import check
from einmap.spec.schema.workload import WorkloadInput

MAX_EXTENT = 2**40
"""Values of one rank variable, and instances; counts of several variables still are exact or close in floats."""
MAX_POINTS = 2**400
"""Points of an Einsum with all its instances: a float holds a product of two such counts with any scale beside it."""


@dataclass(frozen=True)
class BoundEinsum:
    """An Einsum, its symbols, what it was made of (`raw`, and what was read there), and notes on it.

    `copy_of`: the tensor that the Einsum copies, if it stands in no file (see `second_names`); `raw` and `written` are
    those of the Einsum that reads the copy then.
    """

    einsum: Einsum
    symbols: Mapping[str, NameSet]
    raw: Raw
    written: WrittenEinsum
    notes: tuple[Note, ...]
    copy_of: str | None = None


@dataclass(frozen=True)
class BoundWorkload:
    """The frozen workload, the symbols that expressions may use in each Einsum, and notes."""

    workload: Workload
    einsums: Mapping[str, BoundEinsum]
    rank_sizes: Mapping[str, object]
    """Sizes of the workload, those that only one Einsum gives left out."""
    notes: tuple[Note, ...] = field(default=())

    @property
    def symbols(self) -> Mapping[str, Mapping[str, NameSet]]:
        """The names that expressions may use in each Einsum."""
        return {name: bound.symbols for name, bound in self.einsums.items()}

    @property
    def second_names(self) -> dict[str, str]:
        """Tensors by the names of copies that were put in, where one Einsum uses a tensor by different indices."""
        return {name: of_einsum.copy_of for name, of_einsum in self.einsums.items() if of_einsum.copy_of is not None}

    @property
    def written_names(self) -> tuple[str, ...]:
        """The Einsums that stand in the specification, in order."""
        return tuple(name for name, of_einsum in self.einsums.items() if of_einsum.copy_of is None)


def bind_workload(root: RawMap, variables: Scope, original: BoundWorkload | None = None) -> BoundWorkload:
    """Bind the key `workload` (and `renames`) of a raw spec; `variables` is the scope of its top level.

    `original`: a workload that differs in nothing but some Einsums, and in renames that mean nothing in others.
    Raises SpecError (or several together) naming Einsum, tensor or rank, and the place.
    """
    return _Binder(root, variables, original).bind()


class _Binder:
    """The steps of binding; problems of one stage are collected and raised together."""

    def __init__(self, root: RawMap, variables: Scope, original: BoundWorkload | None) -> None:
        self.root = root
        self.original = original
        self.scope = variables
        self.problems: list[EinmapError] = []
        self.notes: list[Note] = []
        self.place = cache(partial(place, root))
        self.spaces: dict[tuple[tuple[str, ...], tuple[str, ...]], Space] = {}
        self.as_read: dict[Path, WrittenEinsum] = {}
        self.second_names: dict[str, str] = {}
        before = () if original is None else original.einsums.values()
        read = {id(bound.raw): bound.written for bound in before}
        self.reader = WorkloadReader(root, self.problems, read)

    @cached_property
    def _checked(self) -> WorkloadInput | None:
        raw = self.root.get("workload") or RawMap(())
        return check(WorkloadInput, raw, self.root, ("workload",), self.problems, drop=("einsums",))

    @property
    def given(self) -> WorkloadInput:
        """The workload as it was written, but for the Einsums. Raises what is wrong with it."""
        if self._checked is None:
            raise_all(self.problems)
        assert self._checked is not None
        return self._checked

    @cached_property
    def sizes(self) -> Scope:
        """The sizes of ranks that are given for all Einsums."""
        return lazy_layer(self.given.rank_sizes, self.scope, lambda name: self.at("workload", "rank_sizes", name))

    def bind(self) -> BoundWorkload:
        raw = self.root.get("workload") or RawMap(())
        checked = self._checked
        einsums = [e for e in self.reader.read_einsums(raw) if e is not None]
        raise_all(self.problems)
        assert checked is not None
        if self.root.get("workload") is None:
            hint = "give a file with this key, or one of the workloads that `einmap examples` lists"
            raise SpecError("the specification has no key 'workload'", at=place(self.root, ("workload",)), hint=hint)
        if not einsums:
            raise SpecError("the workload has no Einsums", at=place(self.root, ("workload",)))
        self.as_read = {einsum.path: einsum for einsum in einsums}
        einsums = self.with_second_names(einsums)
        self.reader.check_cascade(einsums)
        raise_all(self.problems)
        facts = _cascade_facts(einsums)
        renames = self.reader.read_renames([e.name for e in einsums])
        bound: dict[str, BoundEinsum] = {}
        for einsum in einsums:
            try:
                bound[einsum.name] = self.same_as_original(einsum, facts) or self.bind_einsum(einsum, facts, renames)
            except EinmapError as problem:
                self.problems.append(problem)
        raise_all(self.problems)
        done = tuple(of_einsum.einsum for of_einsum in bound.values())
        self.notes += [note for of_einsum in bound.values() for note in of_einsum.notes]
        paths = {e.name: e.path for e in einsums}
        self.problems += disagreements(done, lambda name: place(self.root, paths[name]))
        raise_all(self.problems)
        n_instances = self.count(checked.n_instances, self.sizes, "workload", "n_instances")
        self.notes += unused_sizes(checked, einsums, self.at)
        tables = [of_einsum.symbols for of_einsum in bound.values()]
        self.notes += hidden_variables(self.root.get("variables"), facts, tables, self.at)
        sizes = {rank: attempt([], partial(self.sizes.lookup, rank)) for rank in checked.rank_sizes}
        rank_sizes = {rank: size for rank, size in sizes.items() if size is not None}
        workload = Workload(done, n_instances)
        raise_all(uneven_steps(workload, lambda name: place(self.root, paths[name])))
        return BoundWorkload(workload, bound, rank_sizes, tuple(self.notes))

    def at(self, *path: str | int) -> At:
        return self.place(path)

    def with_second_names(self, einsums: list[WrittenEinsum]) -> list[WrittenEinsum]:
        """The Einsums, and copies of tensors that one of them uses by different indices. Raises SpecError."""
        self.notes += [Note(text, place(self.root, einsum.path)) for einsum in einsums for text in einsum.notes]
        if not has_several_uses(einsums):
            return einsums
        variables = self.root.get("variables")
        taken = {*self.given_renames(), *(variables.keys() if isinstance(variables, RawMap) else ())}
        names = SecondNames(self.root, einsums, taken, self.space_of, self.rank_size, self.instances_of)
        every = names.put_in()
        self.notes += names.notes
        self.second_names = names.tensors
        return every

    def given_renames(self) -> set[str]:
        """The names that renames of the workload give."""
        renames = to_python(self.root.get("renames") or RawMap(()))
        return {*re.findall(r"\w+", repr(renames))}

    def instances_of(self, einsum: WrittenEinsum) -> int:
        """How often the Einsum is repeated."""
        return self.count(einsum.given.n_instances, self.sizes_of(einsum), *einsum.path, "n_instances")

    def count(self, value: object, scope: Scope, *path: str | int) -> int:
        with placed(self.root, path):
            size = int(number(value, scope, at=None, what=str(path[-1]), minimum=1, integer=True, allow_inf=False))
            if size > MAX_EXTENT:
                raise SpecError(f"{path[-1]} is too large: it is {_rounded(size)}, at most 2**40 is allowed")
            return size

    def same_as_original(self, einsum: WrittenEinsum, facts: CascadeFacts) -> BoundEinsum | None:
        """An Einsum that the original workload has, too: written once, its tensors used alike."""
        before = self.original.einsums.get(einsum.name) if self.original is not None else None
        if self.original is None or before is None or before.raw is not get_value(self.root, einsum.path):
            return None
        workload, tensors = self.original.workload, before.einsum.tensors
        alike = (
            facts.intermediates & tensors == workload.intermediates & tensors
            and facts.shared & tensors == workload.shared & tensors
        )
        return before if alike and tensors == {access.name for access in einsum.accesses} else None

    def bind_einsum(self, einsum: WrittenEinsum, facts: CascadeFacts, renames: dict[str, list[Rename]]) -> BoundEinsum:
        problems: list[EinmapError] = []
        space = attempt(problems, lambda: self.space_of(einsum))
        einsum_facts = EinsumFacts(
            einsum.name,
            {a.name: a.projection for a in einsum.accesses},
            frozenset(a.name for a in einsum.accesses if a.output),
            frozenset(a.name for a in einsum.accesses if a.given.persistent),
            einsum.variables,
        )
        written = self.reader.renames_of(einsum.given.renames, (*einsum.path, "renames"))
        chosen = self.meanings(einsum)
        # a copy that is put in is spoken of as the Einsum that reads it
        as_read = self.as_read[einsum.path]
        for rename in (*renames.get("default", ()), *renames.get(as_read.name, ()), *written):
            # what is expected of the number of weights, say, is said of Einsums that stand in the specification
            chosen[rename.name] = replace(rename, count=None) if einsum.copy_of else rename
        table = self.with_renames(symbols(facts, einsum_facts, {}), chosen, einsum)
        bits = attempt(problems, lambda: self.bits_of(einsum, Scope(table, self.scope)))
        raise_all(problems)
        assert space is not None
        assert bits is not None
        known = self.with_renames(symbols(facts, einsum_facts, bits), chosen, einsum)
        persistent = einsum_facts.persistent
        if self.given.persistent_tensors is not None:
            persistent |= self.lasting(einsum, Scope(known, self.scope)) - self.second_names.keys()
        extents = tuple((v, high - low + 1) for (v, low), (_, high) in zip(space.low, space.high, strict=True))
        for variable, extent in extents:
            if extent > MAX_EXTENT:
                raise SpecError(
                    f"rank variable {variable!r} of Einsum {einsum.name!r} is too large: it has {_rounded(extent)} "
                    f"values, at most 2**40 are allowed",
                    at=place(self.root, einsum.path),
                )
        notes = () if space.is_box else (self._box_note(einsum, space, extents),)
        tables = Tables(self.root, self.as_read, self.rank_size, self.space_of)
        gathered = {a.name: tables.sized(einsum, a) for a in einsum.accesses}
        wide = PartialSums(self.root, self.given, einsum, dict(extents), bits).widths(Scope(known, self.scope))
        accesses = tuple(
            TensorAccess(
                a.name, a.projection, a.output, bits[a.name], a.name in persistent, wide.get(a.name), gathered[a.name]
            )
            for a in einsum.accesses
        )
        instances = self.instances_of(einsum)
        self.check_points(einsum, _product(extents) * instances)
        done = Einsum(
            einsum.name,
            accesses,
            extents,
            einsum.operation,
            einsum.given.is_copy_operation,
            instances,
            None if space.is_box else space.points,
            tuple((v, low) for v, low in space.low if low),
            space.cuts,
            _listed(einsum.given.compute),
            next((part for part in PARTS if part == einsum.given.part), None),
        )
        return BoundEinsum(done, known, get_value(self.root, einsum.path), as_read, notes, einsum.copy_of)

    def _box_note(self, einsum: WrittenEinsum, space: Space, extents: tuple[tuple[RankVar, int], ...]) -> Note:
        counted = f", the space has {space.points})" if space.points is not None else ")"
        return Note(
            f"the iteration space of {einsum.name!r} is not a hyperrectangle; counts are those of its bounding box "
            f"({_product(extents)} points{counted}",
            place(self.root, einsum.path),
            mappings_only=True,
        )

    def meanings(self, einsum: WrittenEinsum) -> dict[str, Rename]:
        """The name of a tensor means its second names, too, where the Einsum has some."""
        renames: dict[str, Rename] = {}
        for access in einsum.accesses:
            tensor = self.second_names.get(access.name)
            if tensor is not None:
                source = f"{renames[tensor].source if tensor in renames else tensor} | {access.name}"
                renames[tensor] = Rename(tensor, source, None, place(self.root, einsum.path))
        return renames

    def check_points(self, einsum: WrittenEinsum, points: int) -> None:
        """Counts of an Einsum are numbers that any calculation takes, also multiplied by each other."""
        if points > MAX_POINTS:
            raise SpecError(
                f"Einsum {einsum.name!r} is too large: it has {_rounded(points)} points with all its instances, "
                f"at most {_rounded(MAX_POINTS)} are allowed",
                at=place(self.root, einsum.path),
                hint="look at the sizes of its ranks",
            )

    def with_renames(self, names: Symbols, renames: Mapping[str, Rename], einsum: WrittenEinsum) -> Symbols:
        """The names and the renames, which are evaluated with them."""
        scope = Scope(names, self.scope)
        return names.renamed(apply_renames([*renames.values()], scope, einsum.name, self.second_names))

    def lasting(self, einsum: WrittenEinsum, scope: Scope) -> frozenset[str]:
        """Tensors of the Einsum that `persistent_tensors` selects."""
        try:
            return tensor_set(
                self.given.persistent_tensors, scope, at=self.at("workload", "persistent_tensors")
            ).members
        except ExpressionError as problem:
            text = f"{problem.message} (Einsum {einsum.name!r})"
            raise ExpressionError(text, at=problem.at, hint=problem.hint) from None

    def space_of(self, einsum: WrittenEinsum) -> Space:
        problems: list[EinmapError] = []
        constraints = [
            constraint
            for text, path in self.written_bounds(einsum, problems)
            if (constraint := attempt(problems, partial(self.constraint, einsum, text, path))) is not None
        ]
        written = dict.fromkeys(entry for access in einsum.accesses for entry in access.written)
        for rank, index in ((rank, index) for rank, index in written if isinstance(index, Affine)):
            size = attempt(problems, partial(self.rank_size, einsum, rank))
            if size is not None:
                constraints.append(within(index, size))
                attempt(problems, partial(self.check_constant, einsum, rank, index, size))
        raise_all(problems)
        # the same for many Einsums
        key = einsum.variables, tuple(constraint.text for constraint in constraints)
        if key not in self.spaces:
            with placed(self.root, einsum.path):
                self.spaces[key] = bounds(einsum.variables, constraints, f"Einsum {einsum.name!r}")
        return self.spaces[key]

    def written_bounds(self, einsum: WrittenEinsum, problems: list[EinmapError]) -> list[tuple[str, Path]]:
        """The bounds that speak of the Einsum, with their places; keys in the wrong case are problems."""
        workload, fields = self.given, einsum.given
        shape = "iteration_space_shape"
        written: list[tuple[str, Path]] = [
            (text, (*einsum.path, shape, i)) for i, text in enumerate(fields.iteration_space_shape)
        ]
        for variable, text in workload.iteration_space_shape.items():
            path = ("workload", shape, variable)
            if not is_name(variable) or not variable[:1].islower():
                problems.append(wrong_case(variable, "rank variable", place(self.root, path)))
            elif variable in einsum.variables and einsum.copy_of is None:  # the own bounds of a copy say all
                written.append((text, path))
        for sizes, where in ((workload.rank_sizes, ("workload",)), (fields.rank_sizes, einsum.path)):
            for rank in sizes:
                if not is_name(rank) or not rank[:1].isupper():
                    problems.append(wrong_case(rank, "rank", place(self.root, (*where, "rank_sizes", rank))))
        return written

    def constraint(self, einsum: WrittenEinsum, text: str, path: Path) -> Constraint:
        """A bound on rank variables of the Einsum."""
        with placed(self.root, path):
            parsed = parse_constraint(text)
            check_names(parsed, einsum.variables, f"Einsum {einsum.name!r}")
            return parsed

    def check_constant(self, einsum: WrittenEinsum, rank: str, index: Affine, size: int) -> None:
        """An index without rank variables lies in its rank, or there is nothing to iterate over."""
        if not index.terms and not 0 <= index.constant < size:
            raise SpecError(
                f"index {index} is outside rank {rank} of size {size}: "
                f"the iteration space of Einsum {einsum.name!r} is empty",
                at=place(self.root, einsum.path),
            )

    def sizes_of(self, einsum: WrittenEinsum) -> Scope:
        """The rank sizes that expressions of the Einsum see: its own, then the workload's."""
        return lazy_layer(einsum.given.rank_sizes, self.sizes, lambda name: self.at(*einsum.path, "rank_sizes", name))

    def rank_size(self, einsum: WrittenEinsum, rank: str) -> int | None:
        scope = self.sizes
        if rank in einsum.given.rank_sizes:
            scope = self.sizes_of(einsum).without(rank)  # in its own expression it is that of the workload
            value: object = einsum.given.rank_sizes[rank]
            at = place(self.root, (*einsum.path, "rank_sizes", rank))
        elif rank in self.given.rank_sizes:
            value, at = self.given.rank_sizes[rank], self.at("workload", "rank_sizes", rank)
        else:
            return None
        what = f"the size of rank {rank}"
        try:
            return int(number(value, scope, at=at, what=what, minimum=1, integer="exact", allow_inf=False))
        except ExpressionError as problem:
            if "integer" in problem.message and isinstance(value, str) and "/" in value:
                problem.hint = "use // for a division of integers"
            elif problem.hint and "is not defined" in problem.message:
                problem.hint += "; sizes see other rank sizes and `variables`"
            raise

    def bits_of(self, einsum: WrittenEinsum, scope: Scope) -> dict[str, float]:
        everything = scope.lookup("All")
        assert isinstance(everything, NameSet)  # no variable of the workload is above the sets
        given = per_tensor(
            self.given.bits_per_value, everything, scope, lambda key: self.at("workload", "bits_per_value", key)
        )
        bits: dict[str, float] = {}
        for access in einsum.accesses:
            self.check_size_scale(access, scope)
            value, at = access.given.bits_per_value, None
            if value is None and access.name in given:
                value, at = given[access.name]
            if value is None:
                raise SpecError(
                    f"no bits_per_value for tensor {access.name!r} of Einsum {einsum.name!r}",
                    at=place(self.root, einsum.path),
                    hint="add it to workload.bits_per_value, for example {All: 8}",
                )
            what = f"bits_per_value of {access.name!r}"
            with placed(self.root, (*access.path, "bits_per_value")):
                amount = number(value, scope, at=at, what=what, allow_inf=False)
                if amount <= 0:
                    raise SpecError(f"{what} must be > 0, found {amount}", at=at)
            bits[access.name] = amount
        return bits

    def check_size_scale(self, access: WrittenAccess, scope: Scope) -> None:
        field = "backing_storage_size_scale"
        with placed(self.root, (*access.path, field)):
            if number(access.given.backing_storage_size_scale, scope, at=None, what=field) != 1:
                raise SpecError(f"{field} is not supported; no known tool gives it an effect", hint="leave it out")


def _cascade_facts(einsums: list[WrittenEinsum]) -> CascadeFacts:
    used = Counter(a.name for e in einsums for a in e.accesses)
    written = {a.name for e in einsums for a in e.accesses if a.output}
    read = {a.name for e in einsums for a in e.accesses if not a.output}
    return CascadeFacts(
        frozenset(used),
        frozenset(v for e in einsums for v in e.variables),
        frozenset(written & read),
        frozenset(name for name, times in used.items() if times > 1),
    )


def _listed(names: str | list[str] | None) -> tuple[str, ...]:
    return () if names is None else (names,) if isinstance(names, str) else tuple(names)


def _rounded(value: int) -> str:
    """Digits while they are few."""
    return str(value) if value < 10**15 else f"about 2**{value.bit_length() - 1}"


def _product(extents: tuple[tuple[str, int], ...]) -> int:
    total = 1
    for _, extent in extents:
        total *= extent
    return total
