"""Boundary states: what earlier Einsums of a cascade leave to later ones.

An option of an Einsum fits behind a boundary state or not; if it fits, another boundary state lies behind the Einsum.
"""

# An unexpanded option keeps the keys of tensors that it uses: without them its two neighbours chose loops that nothing
# between them could have. It forgets those of tensors that pass by: kept keys of these made millions of states. All
# that states are made of has numbers, given out once: tuples that were compared and hashed by content took most of the
# time of graphs.

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, overload
from weakref import WeakKeyDictionary

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.fusion.fronts.nests.loops import Cut, Kind
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key, SignatureClass
from einmap.mapper.fusion.paths import state_kernels
from einmap.mapper.fusion.paths.kernel_records import ABSENT, PLAIN, UNEXPANDED, Parts
from einmap.mapper.fusion.paths.state_kernels import BITS, HELD, KEY, LOOPS, MEMORY, SHARED, SLOT, WRITTEN

type Slot = int
"""Stands for a shared tensor: no other one that is in use at the same time has the same."""

OWN = "~"
"""Prefix of the rank of a cut that is not a rank of the tensor: no other Einsum cuts alike."""


class Live(NamedTuple):
    """A shared tensor that is still needed.

    `shared`: loops that its last user so far and the next Einsum share. `held`: nodes in which the last user holds it
    inside above such loops, as (loops above, memory): the next user has to have the same ones, with a memory's name.
    `written`: how loops below its backing node that its producer and the next Einsum share cut it: a reader must cut it
    alike, or it would read what is not written yet. `bits`: of its tile in the memory that backs it.
    """

    slot: Slot
    key: Key
    shared: int
    held: tuple[tuple[int, str], ...]
    written: tuple[Cut, ...]
    bits: float


class BoundaryState(NamedTuple):
    """State between two Einsums: tensors that are needed later, and the loops that stay open.

    `partial`: of tensors that are not kept as a whole only the keys are looked at, or the memories where the loops are
    not known; nothing else is.
    """

    live: tuple[Live, ...]
    loops: tuple[tuple[Kind, int], ...]
    partial: bool = False


ANY_LOOPS: tuple[Cut, ...] = ((("", "any"), "", 0),)
"""In place of the loops of a key: they are not known."""
OTHER_LOOPS: tuple[Cut, ...] = ((("", "other"), "", 0),)
"""In place of the loops of a key: they are others than those of all listed options that come later."""
NO_ELEMENTS = 0
"""The number of a sequence without elements."""
FEW = 64
"""Rows that a table has room for at first."""


@dataclass(frozen=True, eq=False)
class Option:
    """One signature of an Einsum, or all chains of a signature class of which nothing is known.

    `bits`: for each shared tensor those of its tile in the memory that backs it. `absent`: the Einsum is a copy that is
    left out. `signature_class`: it stands for all chains of a signature class that are not listed; of the keys only the
    memories are known, unless no loop may stand above these.
    """

    signature: FusionSignature
    keys: Mapping[Slot, Key]
    held: Mapping[Slot, tuple[tuple[int, str], ...]]
    cuts: Mapping[Slot, tuple[Cut, ...]]
    bits: Mapping[Slot, float]
    absent: bool = False
    signature_class: SignatureClass | None = None

    @property
    def unexpanded(self) -> bool:
        """Whether it stands for chains that are not listed."""
        return self.signature_class is not None

    @property
    def loops(self) -> tuple[tuple[Kind, int], ...]:
        """Kind and iterations of the fused loops."""
        return self.signature.loops


@dataclass(frozen=True, eq=False)
class EinsumOptions:
    """One Einsum as other ones see it, or several that look the same.

    `needed`: slots in use behind it; `born`: of tensors that it is the first to use; `intermediates`: of those that
    another Einsum writes, or another one reads, but for states of a recurrence that are read early. `times`: how often
    it runs. `states`: of a recurrence, that it writes.
    """

    options: Sequence[Option]
    needed: frozenset[Slot]
    born: frozenset[Slot]
    intermediates: frozenset[Slot]
    times: float
    states: frozenset[Slot] = frozenset()

    @cached_property
    def slots(self) -> frozenset[Slot]:
        """Tensors that it uses, the same with all its options."""
        return frozenset().union(*(option.keys for option in self.options[:1]))

    @cached_property
    def may_be_absent(self) -> bool:
        """Whether the Einsum may be left out."""
        return any(option.absent for option in self.options)

    @cached_property
    def unexpanded(self) -> Bools:
        """Whether each option stands for chains that are not listed."""
        return np.array([option.unexpanded for option in self.options], dtype=bool)


class Table:
    """Rows of numbers that are added one by one. `width`: 0 for single numbers."""

    def __init__(self, kind: type[np.generic], width: int = 0) -> None:
        self._values: np.ndarray[Any, Any] = np.zeros((FEW, width) if width else FEW, kind)
        self._n = 0

    @property
    def values(self) -> Any:
        """The rows so far."""
        return self._values[: self._n]

    def add(self, row: object) -> None:
        """Add a row."""
        if self._n == len(self._values):
            self._values = np.concatenate([self._values, np.zeros_like(self._values)])
        self._values[self._n] = row
        self._n += 1


class Numbers[T: Hashable]:
    """Values with numbers, from 0 on in the order in which they were met."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def of(self, value: T) -> int:
        """The number of a value."""
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number


class Sequences[X]:
    """Tuples with numbers, 0 for the empty one, and those of what is left of each where it is made shorter.

    `lengths`: of each how far it can be made shorter. `shorter`: (tuples, n) number of the tuple made shorter to n; in
    the last column it is whole. `marked`: for each whether some element is.
    """

    def __init__(
        self,
        length: Callable[[tuple[X, ...]], int],
        shortened: Callable[[tuple[X, ...], int], tuple[X, ...]],
        is_marked: Callable[[X], bool],
    ) -> None:
        self._length, self._shortened, self._is_marked = length, shortened, is_marked
        self.values: list[tuple[X, ...]] = []
        self._numbers: dict[tuple[X, ...], int] = {}
        self._lengths, self._marked, self._shorter = Table(np.int64), Table(np.bool_), Table(np.int64, 1)
        self.of(())

    def of(self, value: tuple[X, ...]) -> int:
        """The number of a tuple."""
        number = self._numbers.get(value)
        if number is not None:
            return number
        length = self._length(value)
        shorter = [self.of(self._shortened(value, n)) for n in range(length)]
        number = self._numbers[value] = len(self.values)
        self.values.append(value)
        width = self._shorter.values.shape[1]
        if length >= width:
            wider = Table(np.int64, length + 1)
            for row in self._shorter.values.tolist():
                wider.add([*row, *(row[-1:] * (length + 1 - width))])
            self._shorter, width = wider, length + 1
        self._shorter.add([*shorter, *([number] * (width - length))])
        self._lengths.add(length)
        self._marked.add(any(map(self._is_marked, value)))
        return number

    @property
    def lengths(self) -> Ints:
        """How far each tuple can be made shorter."""
        lengths: Ints = self._lengths.values
        return lengths

    @property
    def shorter(self) -> Ints:
        """Numbers of what is left of each tuple."""
        shorter: Ints = self._shorter.values
        return shorter

    @property
    def marked(self) -> Bools:
        """Whether some element of each tuple is marked."""
        marked: Bools = self._marked.values
        return marked


class StateNumbers:
    """Whole numbers for all that options and boundary states are made of: each value has one, for as long as this is.

    Kernels work with these numbers alone; see state_kernels. `lives`: the table of tensors that are needed.
    """

    def __init__(self) -> None:
        self.memories, self._bits, self._keys = Numbers[str](), Numbers[float](), Numbers[tuple[int, int]]()
        self.cuts: Sequences[Cut] = Sequences(len, _first, lambda cut: cut[1].startswith(OWN))
        self.loops: Sequences[tuple[Kind, int]] = Sequences(len, _first, lambda _: False)
        self.held: Sequences[tuple[int, str]] = Sequences(_deepest, _above, lambda node: not node[1])
        self._key_rows, self._bit_rows = Table(np.int64, 4), Table(np.float64)
        self._options: dict[tuple[Slot, ...], Table] = {}
        self._option_number: dict[Option, int] = {}
        self._number_of_key: dict[Key, int] = {}
        self._listed_keys = WeakKeyDictionary[EinsumOptions, Mapping[Slot, frozenset[int]]]()
        self._any, self._other = self.cuts.of(ANY_LOOPS), self.cuts.of(OTHER_LOOPS)
        self.memories.of("")
        self.bits_of(0.0)
        self._key_of(0, 0)  # that of no tensor
        self.lives = state_kernels.table_of_tensors()

    @property
    def parts(self) -> Parts:
        """All that kernels have to know of the numbers."""
        return Parts(
            self._key_rows.values, self.cuts.lengths, self.cuts.marked, self.cuts.shorter, self.held.marked,
            self.held.shorter, self.loops.lengths, self.loops.shorter, self._bit_rows.values,
        )  # fmt: skip

    def bits_of(self, bits: float) -> int:
        """The number of so many bits."""
        number = self._bits.of(bits)
        if number == len(self._bit_rows.values):
            self._bit_rows.add(bits)
        return number

    def key(self, key: Key) -> int:
        """The number of a key."""
        number = self._number_of_key.get(key)
        if number is None:
            number = self._key_of(self.memories.of(key.memory), self.cuts.of(key.loops))
            self._number_of_key[key] = number
        return number

    def _key_of(self, memory: int, loops: int) -> int:
        number = self._keys.of((memory, loops))
        if number == len(self._key_rows.values):
            self._key_rows.add([memory, loops, number, number])
            row = [memory, loops, self._key_of(memory, self._any), self._key_of(memory, self._other)]
            self._key_rows.values[number] = row
        return number

    def options(self, step: EinsumOptions) -> Ints:
        """The options of a step as rows: kind, loops, and for each slot key, held nodes, cuts and bits."""
        slots = tuple(sorted(step.slots))
        rows = self._options.setdefault(slots, Table(np.int64, 2 + 4 * len(slots)))
        numbers = self._option_number
        for option in step.options:
            if option not in numbers:
                numbers[option] = len(rows.values)
                rows.add(self._row(option, slots))
        found: Ints = rows.values[np.fromiter(map(numbers.__getitem__, step.options), np.int64, len(step.options))]
        return found

    def _row(self, option: Option, slots: Sequence[Slot]) -> list[int]:
        kind = UNEXPANDED if option.unexpanded else ABSENT if option.absent else PLAIN
        row = [kind, self.loops.of(option.loops)]
        for t in slots:
            held, cuts = option.held.get(t), option.cuts.get(t)
            row += [
                self.key(option.keys[t]),
                self.held.of(held) if held else NO_ELEMENTS,
                self.cuts.of(cuts) if cuts else NO_ELEMENTS,
                self.bits_of(option.bits.get(t, 0.0)),
            ]
        return row

    def listed_keys(self, step: EinsumOptions) -> Mapping[Slot, frozenset[int]]:
        """For each tensor that a step uses the keys below loops that listed options have."""
        if step not in self._listed_keys:
            options, keys = self.options(step), self._key_rows.values
            listed = options[options[:, 0] != UNEXPANDED]
            found = {t: np.unique(listed[:, 2 + 4 * s]) for s, t in enumerate(sorted(step.slots))}
            self._listed_keys[step] = {t: frozenset(of[keys[of, LOOPS] != 0].tolist()) for t, of in found.items()}
        return self._listed_keys[step]

    def live(self, number: int) -> Live:
        """The tensor with a number."""
        row = self.lives.rows[number].tolist()
        memory, loops = self._keys.values[row[KEY]]
        return Live(
            row[SLOT],
            Key(self.memories.values[memory], self.cuts.values[loops]),
            row[SHARED],
            self.held.values[row[HELD]],
            self.cuts.values[row[WRITTEN]],
            self._bits.values[row[BITS]],
        )


class BoundaryStates(Sequence[BoundaryState]):
    """Boundary states between two Einsums, as `rows`: for each of some slots, in rising order, the number of its
    tensor, 0 where there is none, then the number of the open loops, and 1 if not all is known.
    """

    def __init__(self, numbers: StateNumbers, slots: tuple[Slot, ...], rows: Ints) -> None:
        self.numbers, self.slots, self.rows = numbers, slots, rows

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rows)

    @overload
    def __getitem__(self, i: int) -> BoundaryState: ...

    @overload
    def __getitem__(self, i: slice) -> Sequence[BoundaryState]: ...

    def __getitem__(self, i: int | slice) -> BoundaryState | Sequence[BoundaryState]:
        """A boundary state by its place, or some of them."""
        if isinstance(i, slice):
            return [self[k] for k in range(*i.indices(len(self)))]
        *lives, loops, is_partial = self.rows[i].tolist()
        live = tuple([self.numbers.live(number) for number in lives if number])
        return BoundaryState(live, self.numbers.loops.values[loops], bool(is_partial))

    def __iter__(self) -> Iterator[BoundaryState]:
        """Each boundary state, in order."""
        return (self[i] for i in range(len(self)))

    @cached_property
    def open_loops(self) -> Ints:
        """How many loops stay open at each."""
        return self.numbers.loops.lengths[self.rows[:, -2]]

    def bits_beside(self, used: Mapping[Slot, object], memories: Sequence[str]) -> Floats:
        """Bits of shared tensors that are needed, but for some slots: (boundary states, memories)."""
        bits, parts = np.zeros((len(self), len(memories))), self.numbers.parts
        for c, slot in enumerate(self.slots):
            if slot not in used:
                lives = self.numbers.lives.rows[self.rows[:, c]]
                memory, size = parts.keys[lives[:, KEY], MEMORY], parts.bits[lives[:, BITS]]
                for i, name in enumerate(memories):
                    bits[:, i] += np.where(memory == self.numbers.memories.of(name), size, 0.0)
        return bits


def _first[X](values: tuple[X, ...], n: int) -> tuple[X, ...]:
    return values[:n]


def _deepest(held: tuple[tuple[int, str], ...]) -> int:
    return max([depth + 1 for depth, _ in held], default=0)


def _above(held: tuple[tuple[int, str], ...], n: int) -> tuple[tuple[int, str], ...]:
    return tuple([node for node in held if node[0] < n])
