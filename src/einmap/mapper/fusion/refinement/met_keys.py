"""Keys of shared tensors that the other Einsums of a cascade can meet.

A shared tensor has the same key in all its users. Where all chains of one user that cascades up to a limit can have are
listed, the others need no chains with other keys.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.fronts.nests.loops import Cut
from einmap.mapper.fusion.fronts.nests.met_loops import KeyLoops, MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.paths.boundary_states import ANY_LOOPS, Option, Slot
from einmap.mapper.fusion.paths.state_graph import Stage
from einmap.mapper.fusion.refinement.relaxation import Relaxation

FEWER = 1 / 2
"""Part of the keys of a large signature class that others have to leave out before it is looked at again."""

type LoopsByMemory = dict[str, set[KeyLoops] | None]
"""For each memory that may back a tensor the loops above it; None where these may be any."""


@dataclass(frozen=True)
class LargeKeys:
    """The loops above shared tensors that the outer nests of a signature class have in cascades up to `limit`.

    `keys`: by position, as far as they are few; None where there were more outer nests than `looked_at`. `counts`: the
    number of all keys, or of those that others could meet.
    """

    limit: float
    keys: MetLoops | None
    counts: Mapping[int, int]
    looked_at: int
    _named: dict[object, set[KeyLoops]] = field(default_factory=dict)

    def again(self, limit: float, met: MetLoops, most: int) -> bool:
        """Whether to look again, at `most` outer nests, up to a limit, where others can meet these."""
        is_further = most > self.looked_at if self.keys is None else limit > self.limit
        if is_further:
            return True
        return any(len(keys) < FEWER * self.counts.get(t, math.inf) for t, keys in met.keys.items())

    def named(self, t: int, einsum: Einsum) -> set[KeyLoops] | None:
        """Loops above a tensor of an Einsum, with the names of its ranks; None: any."""
        if self.keys is None or t not in self.keys.keys:
            return None
        ranks = tuple(rank for rank, _ in einsum.accesses[t].projection)
        if (t, ranks) not in self._named:
            names = {str(i): rank for i, rank in enumerate(ranks)}
            self._named[t, ranks] = {
                tuple([(kind, names.get(at, at), tile) for kind, at, tile in key]) for key in self.keys.keys[t]
            }
        return self._named[t, ranks]


@dataclass
class MetKeys:
    """Keys that others can meet in cascades up to `most`, by the bounds of a graph."""

    relaxed: Relaxation
    most: float
    large: Mapping[tuple[Fronts, SignatureClass], LargeKeys]
    _of_users: dict[tuple[Stage, Slot], LoopsByMemory] = field(default_factory=dict)
    _of_chains: dict[Fronts, dict[int, LoopsByMemory]] = field(default_factory=dict)
    _of_classes: dict[tuple[Fronts, SignatureClass], MetLoops] = field(default_factory=dict)

    def of(self, chains: Fronts, signature_class: SignatureClass) -> MetLoops:
        """The loops above the shared tensors of a signature class, as far as others leave not all."""
        if math.isinf(self.most):
            return MetLoops()
        if (chains, signature_class) not in self._of_classes:
            self._of_classes[chains, signature_class] = self._of_class(chains, signature_class)
        return self._of_classes[chains, signature_class]

    def _of_class(self, chains: Fronts, signature_class: SignatureClass) -> MetLoops:
        if chains not in self._of_chains:
            self._of_chains[chains] = self._met(chains)
        by_tensor = self._of_chains[chains]
        met = {t: by_tensor[t].get(memory, set()) for t, memory in signature_class if t in by_tensor}
        loops = MetLoops({t: frozenset(loops) for t, loops in met.items() if loops is not None})
        known = self.relaxed.cascade.first_floors
        return loops if known is None else loops.both(known.met(self.relaxed.cascade.first_of[chains], signature_class))

    def _met(self, chains: Fronts) -> dict[int, LoopsByMemory]:
        """For each shared tensor what some Einsum with these chains can meet."""
        cascade = self.relaxed.cascade
        met: dict[int, LoopsByMemory] = {}
        seen: set[object] = set()
        for k, member in enumerate(cascade.members):
            if member.chains is not chains:
                continue
            for t, access in enumerate(member.einsum.accesses):
                users = [u for u in self._users(access.tensor) if u != k] if access.tensor in cascade.slots.of else []
                slot = cascade.slots.of.get(access.tensor, -1)
                alike = t, slot, tuple(self.relaxed.stages[u] for u in users)
                if not users or alike in seen:
                    continue
                seen.add(alike)
                of_place = _positions(member.einsum, t, _in_all([self._of_user(u, slot) for u in users]))
                met[t] = _in_any(met[t], of_place) if t in met else of_place
        return met

    def _users(self, tensor: str) -> Iterator[int]:
        slots = self.relaxed.cascade.slots
        for k in range(slots.first[tensor], slots.last[tensor] + 1):
            if tensor in self.relaxed.cascade.members[k].einsum.tensors:
                yield k

    def _of_user(self, k: int, slot: Slot) -> LoopsByMemory:
        """Keys that one user of a tensor leaves."""
        stage = self.relaxed.stages[k]
        if (stage, slot) not in self._of_users:
            found: LoopsByMemory = {}
            for o in self.relaxed.near(k, self.most):
                option = stage.step.options[o]
                memory, loops = option.keys[slot]
                if option.absent:
                    found[memory] = None
                elif loops == ANY_LOOPS:
                    some = self._of_large(k, slot, option)
                    if some is None or (of_memory := found.setdefault(memory, set())) is None:
                        found[memory] = None
                    else:
                        of_memory |= some
                elif (of_memory := found.setdefault(memory, set())) is not None:
                    of_memory.add(loops)
            self._of_users[stage, slot] = found
        return self._of_users[stage, slot]

    def _of_large(self, k: int, slot: Slot, option: Option) -> set[KeyLoops] | None:
        """Keys of a tensor in what is not listed of a signature class, with the names of ranks; None: any."""
        member, slots = self.relaxed.cascade.members[k], self.relaxed.cascade.slots
        known = None if option.signature_class is None else self.large.get((member.chains, option.signature_class))
        if known is None or self.most > known.limit:
            return None
        t = next(t for t, access in enumerate(member.einsum.accesses) if slots.of.get(access.tensor, -1) == slot)
        return known.named(t, member.einsum)


class LatestMetKeys:
    """The latest keys that were asked for: of one graph and up to one limit they are asked for many times.

    `large`: what is known of large signature classes.
    """

    def __init__(self, large: Mapping[tuple[Fronts, SignatureClass], LargeKeys]) -> None:
        self._latest: MetKeys | None = None
        self._large = large

    def of(self, relaxed: Relaxation, most: float) -> MetKeys:
        """Keys that others can meet in cascades up to `most`, by the bounds of a graph."""
        if self._latest is None or self._latest.relaxed is not relaxed or self._latest.most != most:
            self._latest = MetKeys(relaxed, most, self._large)
        return self._latest

    def forget(self) -> None:
        """Look for them anew: more is known of large signature classes."""
        self._latest = None


def _in_all(users: list[LoopsByMemory]) -> LoopsByMemory:
    """Keys that all of some users leave."""
    met = dict(users[0])
    for user in users[1:]:
        for memory in list(met):
            here, there = met[memory], user.get(memory, set())
            met[memory] = here if there is None else set(there) if here is None else here & there
    return met


def _in_any(one: LoopsByMemory, other: LoopsByMemory) -> LoopsByMemory:
    """Keys that at least one of two leaves."""
    met = dict(one)
    for memory, there in other.items():
        here = met.get(memory, set())
        met[memory] = None if here is None or there is None else here | there
    return met


def _positions(einsum: Einsum, t: int, met: LoopsByMemory) -> LoopsByMemory:
    """With the positions of the tensor's ranks in place of their names; what an Einsum cannot have is left out."""
    number = {rank: str(i) for i, (rank, _) in enumerate(einsum.accesses[t].projection)}

    def cuts(loops: KeyLoops) -> tuple[Cut, ...]:
        return tuple([(kind, number.get(rank, rank), tile) for kind, rank, tile in loops])

    return {memory: None if of is None else {cuts(loops) for loops in of} for memory, of in met.items()}
