"""Options: what other Einsums see of each Einsum of a cascade, by slots, so that Einsums that look the same have the
same options.
"""

# Slots are handed out kind by kind, those longest in use first: with the lowest free number layers of a network
# alternated between two ways of numbering, and equal structure did not give equal stages.

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import count

from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import structure
from einmap.einsum.workload import Workload
from einmap.mapper.fusion.fronts.hulls import Scales
from einmap.mapper.fusion.fronts.nests.loops import Cut
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key, SignatureClass
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.paths.boundary_states import ANY_LOOPS, OWN, EinsumOptions, Option, Slot


@dataclass
class SlotAssignment:
    """The slots of a workload's shared tensors: two that are in use at the same time have different ones.

    Tensors of one kind, those of the layers of a network, come one after the other, so that they get the same one if
    they can: where structure repeats, slots do, too. The lowest ones are for those that are in use longest.

    `first`, `last`: positions of the first and the last user of each shared tensor.
    """

    workload: Workload

    def __post_init__(self) -> None:
        self._position = {einsum.name: k for k, einsum in enumerate(self.workload.einsums)}
        users = {t: [self._position[user] for user in self.workload.users[t]] for t in sorted(self.workload.shared)}
        self.first = {t: min(positions) for t, positions in users.items()}
        self.last = {t: max(positions) for t, positions in users.items()}
        self.of: dict[str, Slot] = {}
        taken: list[set[Slot]] = [set() for _ in self.workload.einsums]
        kinds: dict[Hashable, list[str]] = {}
        for t in sorted(users, key=lambda t: (self.first[t] - self.last[t], self.first[t])):
            kinds.setdefault(self._kind(t), []).append(t)
        for t in (t for alike in kinds.values() for t in alike):
            in_use = taken[self.first[t] : self.last[t] + 1]
            others = set[Slot]().union(*in_use)
            slot = self.of[t] = next(slot for slot in count() if slot not in others)
            for slots in in_use:
                slots.add(slot)
        behind: list[set[Slot]] = [set() for _ in self.workload.einsums]
        for t, slot in self.of.items():
            for slots in behind[self.first[t] : self.last[t]]:
                slots.add(slot)
        self.behind = [frozenset(slots) for slots in behind]
        """Slots of the tensors that are in use behind each Einsum."""

    def _kind(self, tensor: str) -> Hashable:
        """The kind of a slot: what its users are, and whether they run one after the other."""
        names = self.workload.users[tensor]
        return tuple((self._structures[name], self._position[name] - self.first[tensor]) for name in names)

    @cached_property
    def _structures(self) -> dict[str, int]:
        """Numbers that are equal for Einsums which are the same but for names."""
        numbers: dict[Hashable, int] = {}
        return {e.name: numbers.setdefault(structure(e), len(numbers)) for e in self.workload.einsums}


@dataclass
class OptionTable:
    """The options of the Einsums of a cascade, made once for those that look the same.

    `chains`: of each Einsum, up to names; `times`: how often it runs; `scales`: how others see its bits (hulls.py).
    """

    slots: SlotAssignment
    chains: Sequence[Fronts]
    times: Sequence[float]
    scales: Sequence[Scales]
    _steps: dict[tuple[Hashable, ...], EinsumOptions] = field(default_factory=dict)

    def copied(self) -> OptionTable:
        """A copy of the options, for a search of its own."""
        return replace(self, _steps=dict(self._steps))

    def forget(self, changed: Collection[Fronts]) -> None:
        """Make the options anew of Einsums whose fronts are not the same any more."""
        self._steps = {key: step for key, step in self._steps.items() if key[0] not in changed}

    def all(self, options: Callable[[int, Mapping[str, Slot]], Iterable[Option]]) -> list[EinsumOptions]:
        """The step of each Einsum, one object for those that look the same.

        `options`: those of an Einsum with the slots of its tensors, by its position.
        """
        for k, key in enumerate(self._keys):
            if key not in self._steps:
                self._steps[key] = self._step(k, options)
        return [self._steps[key] for key in self._keys]

    @cached_property
    def _keys(self) -> list[tuple[Hashable, ...]]:
        """All that tells the step of an Einsum from others, its fronts first."""
        keys: list[tuple[Hashable, ...]] = []
        for k, einsum in enumerate(self.slots.workload.einsums):
            shared = [a for a in einsum.accesses if a.tensor in self.slots.first]
            of = tuple(self.slots.of[a.tensor] for a in shared)
            ranks = tuple(tuple(rank for rank, _ in a.projection) for a in shared)
            einsum_key = self.chains[k], self.times[k], self.scales[k]
            keys.append((*einsum_key, of, ranks, self.slots.behind[k], *self._kinds(k), self._states(k)))
        return keys

    def _kinds(self, k: int) -> tuple[frozenset[Slot], frozenset[Slot]]:
        """Slots of tensors that an Einsum is the first one to use, and of intermediate ones."""
        workload, slots = self.slots.workload, self.slots
        shared = [t for t in workload.einsums[k].tensors if t in slots.first]
        born = frozenset(slots.of[t] for t in shared if slots.first[t] == k)
        written = workload.einsums[k].outputs
        known = (t for t in shared if t in workload.intermediates and not (t in workload.states and t not in written))
        return born, frozenset(slots.of[t] for t in known)

    def _step(self, k: int, options: Callable[[int, Mapping[str, Slot]], Iterable[Option]]) -> EinsumOptions:
        einsum = self.slots.workload.einsums[k]
        of = {a.tensor: self.slots.of[a.tensor] for a in einsum.accesses if a.tensor in self.slots.first}
        return EinsumOptions(
            tuple(options(k, of)), self.slots.behind[k], *self._kinds(k), self.times[k], self._states(k)
        )

    def _states(self, k: int) -> frozenset[Slot]:
        """Slots of states of a recurrence that an Einsum writes."""
        workload = self.slots.workload
        return frozenset(self.slots.of[t] for t in workload.einsums[k].outputs & workload.states.keys())


def option_of(
    einsum: Einsum, chains: Fronts, signature: FusionSignature, of: Mapping[str, Slot], scales: Scales = ()
) -> Option:
    """A signature of an Einsum with the slots of its tensors, and the names that their ranks have."""
    slots = {t: of[einsum.accesses[t].tensor] for t, _ in signature.keys}
    keys = {slots[t]: _named_key(ranks_of(einsum, t), key) for t, key in signature.keys}
    held: dict[Slot, tuple[tuple[int, str], ...]] = {}
    for t, depth, memory in signature.held:
        held[slots[t]] = (*held.get(slots[t], ()), (depth, memory))
    backed = chains.backed(signature)
    bits = {slots[t]: space for t, (_, space) in backed.items()}
    for t, memory, factor in scales:
        if backed[t][0] == memory:
            bits[slots[t]] = float(Fraction(backed[t][1]) * factor)
    cuts = {slots[t]: named(ranks_of(einsum, t), loops) for t, loops in signature.cuts}
    return Option(signature, keys, held, cuts, bits, chains.is_absent(signature))


def unexpanded_option(
    einsum: Einsum, chains: Fronts, signature_class: SignatureClass, of: Mapping[str, Slot]
) -> Option:
    """All chains of a signature class, of which nothing but the memories is known."""
    keys = {
        of[einsum.accesses[t].tensor]: Key(memory, ANY_LOOPS if chains.may_stand_below_loops(memory) else ())
        for t, memory in signature_class
    }
    return Option(FusionSignature((), (), (), ()), keys, {}, {}, {}, signature_class=signature_class)


def ranks_of(einsum: Einsum, t: int) -> tuple[str, ...]:
    """Names of the ranks of a tensor of an Einsum."""
    return tuple([rank for rank, _ in einsum.accesses[t].projection])


def named(ranks: Sequence[str], cuts: Sequence[Cut]) -> tuple[Cut, ...]:
    """Loops as a tensor sees them, with the names of its ranks."""
    return tuple(
        [(kind, ranks[int(rank)] if rank.isdigit() else rank and OWN + rank, tile) for kind, rank, tile in cuts]
    )


@lru_cache(maxsize=32_768)
def _named_key(ranks: tuple[str, ...], key: Key) -> Key:
    """A key with the names of the tensor's ranks: many signatures have the same one."""
    return Key(key.memory, named(ranks, key.loops))
