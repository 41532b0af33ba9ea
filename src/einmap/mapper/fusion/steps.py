"""Recurrences as the search of a cascade sees them: what holds the Einsums of one together below a loop over its steps.

Each Einsum has one more input, a *token* without values whose storage node stands right below the loop: as a tensor
that all of them share it keeps the loop open from the first Einsum to the last. No other loop may stand above it but
those over what the recurrence does not carry, such as samples of a batch, which index the token, too. What is held
above the token is held across steps. A state takes room from the first Einsum to the last: where these do not use it
they have it as an input without traffic.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from math import prod
from typing import Any

from einmap.arch.component import Memory, Network, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine, Rank
from einmap.einsum.spaces.recurrence import Recurrence
from einmap.errors import NotSupportedError
from einmap.mapper.mapspace.template import joined
from einmap.mapper.mapspace.tile_lattice import is_plain
from einmap.mapper.problem.request import Steps
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.spec import Spec


@dataclass(frozen=True)
class CascadeSteps:
    """The recurrences of a cascade. `of`: the steps of each Einsum that is a part of one.

    `uncut`: ranks of shared tensors that no fused loop is over; `cut`: those of states that the loops over steps cut.
    """

    of: Mapping[str, Steps] = field(default_factory=dict)
    uncut: frozenset[tuple[str, Rank]] = frozenset()
    cut: frozenset[tuple[str, Rank]] = frozenset()

    def key(self, einsum: Einsum) -> Hashable:
        """Equal for two Einsums whose steps are the same but for names."""
        steps = self.of.get(einsum.name)
        if steps is None:
            return None
        tensors = tuple((a.tensor == steps.token, a.tensor in steps.single) for a in einsum.accesses)
        states = tuple((steps.states.get(a.tensor), a.kept is None or a.kept[1]) for a in einsum.accesses)
        outside = tuple(v in steps.outside for v in einsum.rank_variables)
        return einsum.rank_variables.index(steps.variable), outside, tensors, states


NO_STEPS = CascadeSteps()


def has_readers(spec: Spec) -> bool:
    """Whether some Einsum right behind a recurrence reads its states at each step."""
    parts = (_Part(spec, recurrence, readers=True, fuse=False) for recurrence in spec.workload.recurrences)
    return any(len(part.einsums) > len(part.recurrence.einsums) for part in parts)


def with_steps(spec: Spec, *, readers: bool, fuse: bool) -> tuple[Spec, CascadeSteps]:
    """The specification with tokens, and with states where they take room. Raises NotSupportedError.

    `readers`: Einsums right behind a recurrence that read its states at each step run below the loop, too. `fuse`:
    whether other loops may stand above the loop. What is given is for the search of fused mappings alone, whose trees
    `without_tokens` makes those of `spec`.
    """
    workload = spec.workload
    parts = [_Part(spec, recurrence, readers, fuse) for recurrence in workload.recurrences]
    of: dict[str, Steps] = {}
    added: dict[str, dict[str, TensorAccess]] = {}
    for part in parts:
        for name in part.einsums:
            added[name] = part.added(name)
            if part.is_looped:
                of[name] = part.steps(name, frozenset(added[name]))
    kept = {state: next(iter(workload.steps_held(state).items())) for state in workload.ending}
    einsums = tuple(_with_inputs(einsum, added.get(einsum.name, {}), kept) for einsum in workload.einsums)
    uncut = frozenset(pair for part in parts for pair in part.uncut())
    cut = frozenset(pair for part in parts if part.is_looped for pair in part.recurrence.states.items())

    def altered(name: str, arch: Architecture) -> Architecture:
        inputs = added.get(name)
        return _extended(arch, inputs, of[name].token if name in of else None) if inputs else arch

    extended = spec.with_einsums(replace(workload, einsums=einsums), altered)
    return extended, CascadeSteps(of, uncut, cut & {pair for part in parts for pair in part.inside()})


def without_tokens(mapping: LoopTree, steps: CascadeSteps) -> LoopTree:
    """A tree without the storage nodes of tokens."""
    tokens = {of_einsum.token for of_einsum in steps.of.values()}

    def kept(nodes: tuple[tree.Node, ...]) -> Iterator[tree.Node]:
        for node in nodes:
            if isinstance(node, tree.Split):
                yield replace(node, branches=tuple(tuple(joined(kept(branch)).nodes) for branch in node.branches))
            elif not isinstance(node, tree.Storage):
                yield node
            elif tensors := tuple(t for t in node.tensors if t not in tokens):
                yield replace(node, tensors=tensors)

    return LoopTree(tuple(joined(kept(mapping.nodes)).nodes))


@dataclass(frozen=True)
class _Part:
    """One recurrence of a specification. `readers`: whether those behind it that read its states are a part of it.

    `fuse`: whether loops may stand above that over its steps.
    """

    spec: Spec
    recurrence: Recurrence
    readers: bool
    fuse: bool

    def __post_init__(self) -> None:
        workload = self.spec.workload
        for name in self.recurrence.einsums:
            einsum = workload.by_name[name]
            if einsum.is_copy:
                self.refuse(name, "a copy within it")
            for state, rank in self.recurrence.states.items():
                access = einsum.by_tensor.get(state)
                if access is None or access.output:
                    continue
                behind = self.recurrence.einsums.index(name) > self.recurrence.einsums.index(workload.producers[state])
                if behind and dict(access.projection)[rank] != dict(self.writer_of(state).projection)[rank]:
                    self.refuse(name, f"an earlier step of {state!r} that is read behind the Einsum that writes it")
            if self.is_looped and not _places(self.spec.arch(name)):
                self.refuse(name, "an architecture without a memory inside that is not spread over lanes")

    @cached_property
    def einsums(self) -> tuple[str, ...]:
        """The Einsums below the loop over steps."""
        behind: list[str] = []
        names = list(self.spec.workload.by_name)
        for name in names[names.index(self.recurrence.einsums[-1]) + 1 :] if self.readers else ():
            if not self._reads_each_step(self.spec.workload.by_name[name]):
                break
            behind.append(name)
        return (*self.recurrence.einsums, *behind)

    def _reads_each_step(self, einsum: Einsum) -> bool:
        """Whether an Einsum behind the recurrence reads of its states what each step has left, step by step."""
        step = self.recurrence.variable
        alone = all(
            any(index.terms == ((step, 1),) for _, index in access.projection)
            for access in einsum.accesses
            if access.output or access.tensor in self.recurrence.states
        )
        ends = all(
            dict(einsum.by_tensor[s].projection)[rank] == dict(self.writer_of(s).projection)[rank]
            for s, rank in self.recurrence.states.items()
            if s in einsum.tensors
        )
        reads = not einsum.tensors.isdisjoint(self.recurrence.states)
        first = self.spec.workload.by_name[self.recurrence.einsums[0]]
        alike = einsum.n_instances == first.n_instances and dict(einsum.first_values).get(step, 0) == dict(
            first.first_values
        ).get(step, 0)
        return reads and alone and ends and alike and not einsum.is_copy and not einsum.gathers

    @cached_property
    def outside(self) -> tuple[str, ...]:
        """Rank variables that the recurrence does not carry: each step needs of itself and others the same value alone.

        All Einsums have them by one name, and index with them, alone, one rank of each tensor that one of them writes.
        """
        if not (self.fuse and self.is_looped):
            return ()
        own = [self.spec.workload.by_name[name] for name in self.einsums]
        return tuple(v for v, bound in own[0].bounds if bound > 1 and self._is_independent(v, own))

    def _is_independent(self, variable: str, einsums: list[Einsum]) -> bool:
        spaces = {(e.extents.get(variable), dict(e.first_values).get(variable, 0)) for e in einsums}
        written = {t for e in einsums for t in e.outputs}
        accesses = [a for e in einsums for a in e.accesses if a.tensor in written]
        ranks = {(a.tensor, r) for a in accesses for r, i in a.projection if variable in dict(i.terms)}
        alone = all(variable not in a.by_rank or is_plain(a, variable) for a in accesses)
        found = all(Affine(((variable, 1),)) in dict(a.projection).values() for a in accesses)
        is_time = variable == self.recurrence.variable
        return not is_time and len(spaces) == 1 and alone and found and len(ranks) == len(written)

    def refuse(self, name: str, what: str) -> None:
        """Raise NotSupportedError for an Einsum."""
        text = f"Einsum {name!r} is a part of a recurrence; the mapper does not know {what} yet"
        raise NotSupportedError(text, at=self.spec.place_of_einsum(name))

    @property
    def is_looped(self) -> bool:
        """Whether there is more than one step."""
        return self.spec.workload.by_name[self.recurrence.einsums[0]].extents[self.recurrence.variable] > 1

    @property
    def token(self) -> str:
        """A name that no tensor has."""
        return f"steps of {self.recurrence.einsums[0]}"

    def writer_of(self, state: str) -> TensorAccess:
        """How a state is written."""
        workload = self.spec.workload
        return workload.by_name[workload.producers[state]].by_tensor[state]

    def added(self, name: str) -> dict[str, TensorAccess]:
        """Accesses of an Einsum beside those of its own tensors."""
        einsum, found = self.spec.workload.by_name[name], dict[str, TensorAccess]()
        step = Affine(((self.recurrence.variable, 1),))
        if self.is_looped:
            over = (self.recurrence.variable, *self.outside)
            index = tuple((v, Affine(((v, 1),))) for v in over)
            found[self.token] = TensorAccess(self.token, index, False, 1.0)
        if name in (self.einsums[0], self.einsums[-1]):
            for state, rank in self.recurrence.states.items():
                if state not in einsum.tensors:
                    written, alone = self.writer_of(state), {Affine(((v, 1),)) for v in self.outside}
                    index = tuple(
                        (r, step if r == rank else i if i in alone else Affine(())) for r, i in written.projection
                    )
                    found[state] = TensorAccess(state, index, False, written.bits_per_value)
        return found

    def steps(self, name: str, added: frozenset[str]) -> Steps:
        """The steps of an Einsum with further inputs."""
        einsum = _with_inputs(self.spec.workload.by_name[name], self.added(name), {})
        states = {s: self.factor(einsum, s) for s in self.recurrence.states if s in einsum.tensors}
        outside = frozenset(self.outside) & {v for v, _ in einsum.bounds}
        return Steps(self.recurrence.variable, self.token, added, states, outside)

    def factor(self, einsum: Einsum, state: str) -> Fraction:
        """How much larger the storage of the steps that are kept is than what an Einsum uses in one step."""
        workload, time = self.spec.workload, self.recurrence.states[state]
        ends: dict[Rank, tuple[int, int]] = {}
        for user in (workload.by_name[name] for name in workload.users[state]):
            access = user.by_tensor[state]
            for rank, index in access.projection:
                low, high = (index.constant,) * 2 if rank == time else user.index_range_of(index)
                least, most = ends.get(rank, (low, high))
                ends[rank] = min(low, least), max(high, most)
        whole = prod(high - low + 1 for low, high in ends.values())
        own = prod(index.extent(einsum.extents) for rank, index in einsum.by_tensor[state].projection if rank != time)
        return Fraction(whole, own)

    def inside(self) -> list[tuple[str, Rank]]:
        """The ranks of time of states that nothing outside of the recurrence uses."""
        users, names = self.spec.workload.users, set(self.einsums)
        return [(state, rank) for state, rank in self.recurrence.states.items() if names.issuperset(users[state])]

    def uncut(self) -> list[tuple[str, Rank]]:
        """Ranks of states, and of tensors that are used within the recurrence, or on both sides of it, and outside."""
        workload = self.spec.workload
        position = {name: i for i, name in enumerate(workload.by_name)}
        first, last = (position[self.einsums[i]] for i in (0, -1))
        found: list[tuple[str, Rank]] = []
        for tensor in workload.shared:
            at = [position[name] for name in workload.users[tensor]]
            crosses = min(at) < first <= max(at) or min(at) <= last < max(at)
            if crosses or tensor in self.recurrence.states:
                own = [workload.by_name[name] for name in workload.users[tensor] if name in self.einsums]
                alone = {Affine(((v, 1),)) for v in self.outside}
                indices = [dict(einsum.by_tensor[tensor].projection) for einsum in own]
                ranks = workload.by_name[workload.users[tensor][0]].by_tensor[tensor].projection
                cut = {rank for rank, _ in ranks if indices and all(index[rank] in alone for index in indices)}
                found += [(tensor, rank) for rank, _ in ranks if rank not in cut]
        return found


def _with_inputs(einsum: Einsum, added: Mapping[str, TensorAccess], kept: Mapping[str, tuple[Rank, int]]) -> Einsum:
    """An Einsum with further inputs, before its outputs. `kept`: how many steps of some states are kept at a time."""
    if not added and kept.keys().isdisjoint(einsum.tensors):
        return einsum
    inputs = [access for access in einsum.accesses if not access.output]
    outputs = [access for access in einsum.accesses if access.output]
    accesses = (*inputs, *added.values(), *outputs)
    return replace(einsum, accesses=tuple(replace(a, kept=kept.get(a.tensor)) for a in accesses))


def _places(arch: Architecture) -> frozenset[str]:
    """The memories that may have the token: inside of the outermost one, with nothing spread above them."""
    places: set[str] | None = None
    for unit in arch.computes:
        if not unit.enabled:
            continue
        found: list[str] = []
        for leaf in arch.path(unit.name):
            if any(dimension.fanout > 1 for dimension in leaf.spatial):
                break
            if isinstance(leaf, Memory) and leaf.enabled:
                found.append(leaf.name)
        inner = set(found[1:])
        places = inner if places is None else places | inner
    return frozenset(places or ())


def _extended(arch: Architecture, added: Mapping[str, TensorAccess], token: str | None) -> Architecture:
    """An architecture in which further inputs cost nothing, and the token of steps takes no room."""
    places = _places(arch)
    for leaf in arch.leaves.values():
        if not isinstance(leaf, Memory | Toll | Network):
            continue
        nothing = tuple((tensor, 0.0) for tensor in added)
        actions = tuple(replace(a, per_value=(*a.per_value, *nothing)) if a.per_value else a for a in leaf.actions)
        changed: dict[str, Any] = {"actions": actions}
        if isinstance(leaf, Toll):
            changed["direction"] = (*leaf.direction, *((tensor, "down") for tensor in added))
        if isinstance(leaf, Memory):
            bits = tuple((t, 0.0 if t == token else access.bits_per_value) for t, access in added.items())
            changed["bits_per_value"] = (*leaf.bits_per_value, *bits)
            assert leaf.placement is not None
            more = frozenset(t for t in added if t != token or leaf.name in places)
            changed["placement"] = replace(leaf.placement, may_keep=leaf.placement.may_keep.adjusted(more=more))
        arch = arch.with_leaf(replace(leaf, **changed))
    return arch
