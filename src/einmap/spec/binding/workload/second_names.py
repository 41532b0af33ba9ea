"""Copy Einsums for tensors that one Einsum uses by different indices: every use has a name, and tiles, of its own.

Z[m, n] = A[m, k] * A[n, k]     -->     A_2[n, k] = A[M: n, k]         (a copy)
                                        Z[m, n] = A[m, k] * A_2[n, k]

A copy that stays in the memory of its source is free. The specification goes on to be what was written; in its
expressions the name of the tensor means its second names, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from einmap.einsum.notation.parse import format_projection, free_name, same_indices
from einmap.einsum.operation import product_of, with_operands
from einmap.einsum.spaces.projection import Affine, Projection
from einmap.einsum.spaces.space import Space
from einmap.errors import Note, SpecError
from einmap.spec.binding.workload.read_workload import WrittenAccess, WrittenEinsum
from einmap.spec.raw import RawMap, get_value, place
from einmap.spec.schema.workload import AccessInput, EinsumInput

type Box = tuple[tuple[str, int, int], ...]
"""The values of each index of a tensor: its rank, the lowest and the highest."""


@dataclass(frozen=True)
class _Copy:
    """A copy that was put in: what part of the tensor it has, how often, and the rank that each rank has there."""

    name: str
    box: Box
    instances: int
    ranks: tuple[tuple[str, str], ...]


def has_several_uses(einsums: Iterable[WrittenEinsum]) -> bool:
    """Whether one of the Einsums uses a tensor by different indices."""
    return any(access.operand != access.name for einsum in einsums for access in einsum.accesses)


class SecondNames:
    """Puts copies into a cascade; `tensors` and `notes` say which afterwards.

    `space_of`, `size_of` (None where a rank has none) and `instances_of` evaluate what is written.
    """

    def __init__(
        self,
        root: RawMap,
        einsums: list[WrittenEinsum],
        taken: Iterable[str],
        space_of: Callable[[WrittenEinsum], Space],
        size_of: Callable[[WrittenEinsum, str], int | None],
        instances_of: Callable[[WrittenEinsum], int],
    ) -> None:
        self.root = root
        self.einsums = einsums
        self.space_of = space_of
        self.size_of = size_of
        self.instances_of = instances_of
        self.taken = {*taken, *(e.name for e in einsums), *(a.name for e in einsums for a in e.accesses)}
        self.variables = {v for e in einsums for v in e.variables}
        self.copies: dict[str, list[_Copy]] = {}
        self.notes: list[Note] = []
        self.tensors: dict[str, str] = {}

    def put_in(self) -> list[WrittenEinsum]:
        """The Einsums that read copies, each copy before its first reader. Raises SpecError."""
        einsums: list[WrittenEinsum] = []
        for einsum in self.einsums:
            einsums += self.split_up(einsum) if has_several_uses([einsum]) else [einsum]
        return einsums

    def split_up(self, einsum: WrittenEinsum) -> list[WrittenEinsum]:
        """The copies that the Einsum needs and that are not there yet, then the Einsum."""
        plain, same = self.by_ranks(einsum)
        space = self.space_of(plain)
        added: list[WrittenEinsum] = []
        names: dict[str, str] = {}
        bounds: list[str] = []
        accesses: list[WrittenAccess] = []
        for access in plain.accesses:
            if access.name not in names.values():
                found = access
            else:
                copy, made = self.copy_for(plain, access, space, {*names.values()})
                added += made
                bounds += self.lost_bounds(plain, access, copy)
                by_rank = dict(copy.ranks)
                projection = tuple((by_rank[rank], index) for rank, index in access.projection)
                found = replace(access, name=copy.name, projection=projection, given=_plain(access.given))
                self.note(einsum, found, access.name, bool(made))
            if not access.output:
                names[access.operand] = found.name
            accesses.append(replace(found, operand=found.name))
        shape = [*plain.given.iteration_space_shape, *bounds]
        given = plain.given.model_copy(update={"iteration_space_shape": shape})
        operation = with_operands(plain.operation, {operand: names[other] for operand, other in same.items()})
        return [*added, replace(plain, accesses=tuple(accesses), operation=operation, given=given)]

    def note(self, einsum: WrittenEinsum, access: WrittenAccess, tensor: str, new: bool) -> None:
        """Say what the Einsum reads now."""
        what = "a copy Einsum that is put in" if new else "the same copy"
        text = (
            f"Einsum {einsum.name!r} uses tensor {tensor!r} by different indices: it reads one of them as "
            f"{access.name}[{format_projection(access.projection)}], {what} ({access.name} is {tensor}, free in the "
            "memory where that is)"
        )
        self.notes.append(Note(text, place(self.root, einsum.path)))

    # which index is of which rank

    def by_ranks(self, einsum: WrittenEinsum) -> tuple[WrittenEinsum, dict[str, str]]:
        """The Einsum, all uses of a tensor indexed by the same ranks, and for each operand the one that is the same.

        Ranks go by name; where names differ and no rank is written out, A[n, k] beside A[m, k], by position.
        """
        firsts: dict[str, WrittenAccess] = {}
        for access in einsum.accesses:
            earlier = firsts.get(access.name)
            if earlier is None or (not self.is_as_elsewhere(earlier) and self.is_as_elsewhere(access)):
                firsts[access.name] = access
        uses = {tensor: [first] for tensor, first in firsts.items()}
        same: dict[str, str] = {}
        for access in einsum.accesses:
            first = firsts[access.name]
            by_rank = replace(access, projection=self.like(first, access, einsum))
            earlier = next((a for a in uses[access.name] if same_indices(a.projection, by_rank.projection)), None)
            if earlier is None:
                uses[access.name].append(by_rank)
            if not access.output:
                same[access.operand] = (earlier or by_rank).operand
        # the use that keeps the tensor's name comes first
        left = {tensor: iter(by_rank) for tensor, by_rank in uses.items()}
        ordered = [next(left[access.name], None) for access in einsum.accesses]
        return replace(einsum, accesses=tuple(access for access in ordered if access is not None)), same

    def is_as_elsewhere(self, access: WrittenAccess) -> bool:
        """Whether another Einsum, one that has the tensor once, names the same ranks."""
        for einsum in self.einsums:
            others = [other for other in einsum.accesses if other.name == access.name]
            if len(others) == 1:
                return {rank for rank, _ in others[0].projection} == {rank for rank, _ in access.projection}
        return False

    def like(self, first: WrittenAccess, access: WrittenAccess, einsum: WrittenEinsum) -> Projection:
        """The indices of a use by the ranks of the first one. Raises SpecError."""
        ranks, given = [r for r, _ in first.projection], [r for r, _ in access.projection]
        if {*ranks} == {*given}:
            by_rank = dict(access.projection)
            return tuple((rank, by_rank[rank]) for rank in ranks)
        text = f"tensor {access.name!r} has ranks {', '.join(ranks)} and {', '.join(given)} in Einsum {einsum.name!r}: "
        text += " and ".join(f"{access.name}[{format_projection(a.projection)}]" for a in (first, access))
        is_text = access.path == einsum.path and isinstance(get_value(self.root, einsum.path), RawMap)
        at = place(self.root, (*einsum.path, "einsum") if is_text else access.path)
        if len(ranks) != len(given):
            raise SpecError(text, at=at, hint="its ranks must be the same wherever it is used")
        turned = tuple(zip(ranks, [index for _, index in access.projection], strict=True))
        if not access.by_position:
            hint = f"write out the ranks of both, for example {access.name}[{_explicit(turned)}]"
            raise SpecError(text, at=at, hint=hint)
        for rank, other in zip(ranks, given, strict=True):
            sizes = self.size_of(einsum, rank), self.size_of(einsum, other)
            if rank not in given and None not in sizes and sizes[0] != sizes[1]:
                text += f"; {other} stands for {rank}, but their sizes are {sizes[1]} and {sizes[0]}"
                hint = f"make them equal, or write {access.name}[{_explicit(turned)}] for a part"
                raise SpecError(text, at=at, hint=hint)
        return turned

    # copies

    def copy_for(
        self, einsum: WrittenEinsum, access: WrittenAccess, space: Space, used: set[str]
    ) -> tuple[_Copy, list[WrittenEinsum]]:
        """A copy with the values that the use needs, and its Einsum if it is new. `used`: those of other uses."""
        low, high = dict(space.low), dict(space.high)
        box = tuple(sorted((rank, *_ends(index, low, high)) for rank, index in access.projection))
        instances = self.instances_of(einsum)
        copies = self.copies.setdefault(access.name, [])
        for copy in copies:
            if copy.box == box and copy.instances == instances and copy.name not in used:
                return copy, []
        name = free_name(access.name, self.taken)
        self.taken.add(name)
        made, ranks = self.copy_einsum(name, einsum, access, {rank: ends for rank, *ends in box})
        copies.append(_Copy(name, box, instances, ranks))
        self.tensors[name] = access.name
        return copies[-1], [made]

    def copy_einsum(
        self, name: str, einsum: WrittenEinsum, access: WrittenAccess, box: dict[str, list[int]]
    ) -> tuple[WrittenEinsum, tuple[tuple[str, str], ...]]:
        """The copy Einsum, and the copy's ranks by the tensor's."""
        ranks = self.ranks_of(einsum, access, box)
        chosen: dict[str, str] = {}
        bounds: list[str] = []
        for rank, index in access.projection:
            plain = _variable(index)
            variable = plain if plain and plain not in chosen.values() else self.fresh(rank)
            chosen[rank] = variable
            low, high = box[rank]
            bounds.append(f"{low} <= {variable} < {high + 1}")
        source = tuple((rank, Affine(((chosen[rank], 1),))) for rank, _ in access.projection)
        target = tuple((dict(ranks)[rank], index) for rank, index in source)
        given = EinsumInput(
            name=name,
            iteration_space_shape=bounds,
            rank_sizes=einsum.given.rank_sizes,
            is_copy_operation=True,
            n_instances=einsum.given.n_instances,
            renames=einsum.given.renames,
        )
        accesses = (
            replace(access, projection=source, operand=access.name),
            replace(access, name=name, projection=target, output=True, operand=name, given=_plain(access.given)),
        )
        done = WrittenEinsum(name, accesses, given, product_of([access.name]), einsum.path, access.name)
        return done, ranks

    def ranks_of(
        self, einsum: WrittenEinsum, access: WrittenAccess, box: dict[str, list[int]]
    ) -> tuple[tuple[str, str], ...]:
        """The copy's ranks by the tensor's: those of the indices where possible, so that each can be cut by itself."""
        ranks: list[tuple[str, str]] = []
        for rank, index in access.projection:
            plain = _variable(index)
            upper = plain.upper() if plain else rank
            size = self.size_of(einsum, upper)
            if size is not None and not box[rank][1] < size:
                upper = rank
            ranks.append((rank, upper))
        same = [(rank, rank) for rank, _ in access.projection]
        return tuple(ranks if len({upper for _, upper in ranks}) == len(ranks) else same)

    def fresh(self, rank: str) -> str:
        """A rank variable that no other Einsum has."""
        name = rank.lower()
        name = free_name(name, self.variables | self.taken) if name in self.variables | self.taken else name
        self.variables.add(name)
        return name

    def lost_bounds(self, einsum: WrittenEinsum, access: WrittenAccess, copy: _Copy) -> list[str]:
        """Bounds of the indices of a use from sizes of ranks, where the copy has other ranks."""
        bounds: list[str] = []
        for rank, index in access.projection:
            size = self.size_of(einsum, rank)
            if dict(copy.ranks)[rank] != rank and size is not None:
                bounds.append(f"0 <= {index} < {size}")
        return bounds


def _variable(index: Affine) -> str | None:
    """The rank variable that an index is by itself."""
    alone = len(index.terms) == 1 and index.terms[0][1] == 1 and not index.constant
    return index.terms[0][0] if alone else None


def _ends(index: Affine, low: dict[str, int], high: dict[str, int]) -> tuple[int, int]:
    """The lowest and the highest value of an index."""
    ends = [sorted((factor * low[v], factor * high[v])) for v, factor in index.terms]
    return index.constant + sum(a for a, _ in ends), index.constant + sum(b for _, b in ends)


def _explicit(projection: Projection) -> str:
    return ", ".join(f"{rank}: {index}" for rank, index in projection)


def _plain(given: AccessInput) -> AccessInput:
    """Fields of a tensor for a second name: only the tensor itself is persistent."""
    return given.model_copy(update={"persistent": False})
