"""Contents of an explanation, as frozen values. Every number has a definition that an execution can check.

Counts are those of all instances of the hardware, without the instance factors of workload and Einsum unless said.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Literal

from einmap.errors import Note
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address, format_address
from einmap.model.cost import Cost

SCHEMA = 1
"""Version of `Explanation.to_dict()`."""

type Kind = Literal["relevant", "partial", "irrelevant"]
"""Whether a loop's rank variable indexes a tensor alone, inside a sum, or not at all."""


@dataclass(frozen=True, slots=True)
class LoopUse:
    """A loop of more than one iteration, as one tensor sees it. `iterations`: the most that it ever has.

    `dimension`: the fanout of a spatial loop, `PEs.X`; None in time.
    """

    variable: str
    iterations: int
    address: Address
    kind: Kind
    dimension: str | None = None


@dataclass(frozen=True, slots=True)
class NodeCases:
    """The four cases for one tensor of one Einsum at one storage node, and what windows that overlap add.

    `visits`: buffers that are opened over the run, in all lanes; `fetches`: those for each chunk, `reads`: fetches with
    the lanes of one multicast counted once; `lanes`: buffers that have the same chunk at one time.
    `positions`: tiles of the relevant loops; `chunks`: distinct ones among them; `values`: what all positions have
    together; `elements`: distinct elements among them (`chunks` and `elements` are None where there are too many).
    `shape`: the largest tile, rank by rank; `smallest`: the smallest one; `bits`: space for the largest.
    `held`: values of all visits; `kept`: those of them that stay from one visit to the next, since the node slides
    along the loop over `slides` (None: it does not). `used`: values that `child`, the next holder inward or the
    Compute, exchanges with the buffer, lanes of one multicast counted once (in each unit that has a copy).
    """

    einsum: str
    tensor: str
    component: str
    address: Address
    backing: bool
    above: tuple[LoopUse, ...]
    below: tuple[LoopUse, ...]
    visits: int
    fetches: int
    reads: int
    lanes: int
    positions: int
    chunks: int | None
    values: int
    elements: int | None
    ranks: tuple[str, ...]
    shape: tuple[int, ...]
    smallest: tuple[int, ...]
    bits: float
    child: str
    held: int
    used: int
    kept: int = 0
    slides: str | None = None

    @property
    def reuse(self) -> float:
        """Times each value that comes into the buffer is used from it, on average."""
        come = self.held - self.kept
        return self.used / come if come else 0.0

    @property
    def overlap(self) -> int | None:
        """Values that another position has too: windows that slide over the tensor."""
        return None if self.elements is None else self.values - self.elements


@dataclass(frozen=True, slots=True)
class Stationary:
    """A tensor that stays while the innermost loops of a level run.

    `loops`: all loops in time between two storage nodes, outermost first; the last `stays_for` of them do not index
    the tensor, so that its tile of `shape`, in one lane of the spatial loops outside, stays for
    `iterations` (fewer in a ragged tile).
    """

    einsum: str
    level: int
    loops: tuple[LoopUse, ...]
    tensor: str
    stays_for: int
    iterations: int
    shape: tuple[int, ...]
    values: int


@dataclass(frozen=True, slots=True)
class Piece:
    """One reason for a count: values between `child` and `parent` that a station pays for.

    `gross` values are in `tiles` tiles of at most `tile_values`; without multicast and reduction between lanes there
    would be `unmerged`. `kept`: what stays in a child that slides, and is not moved. `skipped`: fills that bring no
    result yet and are not made. `shared`: what is paid beside the Einsum's own tiles in a buffer that several Einsums
    share; negative where another one pays. values = (gross - kept - skipped + shared) * units.
    `loops`: those above the child, which make the tiles; `below`: those below it that make up one tile; `merged`: lanes
    that one value serves.

    `hop`: `gross` steps of values on a network, along one of its `loops`, both ways; `merged` if its lanes share them.
    """

    way: Literal["down", "up", "copy", "compute", "hop"]
    child: str
    parent: str
    child_address: Address
    station: Address
    tiles: int
    tile_values: int
    gross: int
    unmerged: int
    skipped: int
    shared: int
    loops: tuple[LoopUse, ...]
    below: tuple[LoopUse, ...]
    merged: tuple[LoopUse, ...]
    kept: int = 0
    complete: int = 0
    """Of the values that go up, those to which nothing is added any more: they are narrower than partial sums."""
    units: int = 1
    """Units of the memory of an array that each pay for a value, since they have copies of it."""

    @property
    def values(self) -> int:
        """Values that are paid for."""
        return (self.gross - self.kept - self.skipped + self.shared) * self.units

    @property
    def multicast(self) -> float:
        """Lanes that one value serves (or that are reduced into one), on average."""
        return self.unmerged / (self.gross * self.units) if self.gross else 1.0


@dataclass(frozen=True, slots=True)
class Derivation:
    """One count of the cost: the values of its pieces x `per_value` actions x `scale` x `instances`.

    `bits`: of one value in a memory; None for tolls and operations. `energy` in J. Where partial sums are wider than
    results, `per_value` and `bits` are theirs, and a complete value takes `saved` actions less.
    """

    einsum: str
    component: str
    tensor: str | None
    action: str
    pieces: tuple[Piece, ...]
    per_value: float
    bits: float | None
    scale: float
    instances: int
    energy: float
    saved: float = 0.0

    @property
    def values(self) -> int:
        """Values of all pieces, steps of values on a network, or operations."""
        return sum(piece.values for piece in self.pieces)

    @property
    def count(self) -> float:
        """Actions of all instances, as in `Cost.actions`."""
        return (self.values * self.per_value - self.complete * self.saved) * self.instances * self.scale

    @property
    def complete(self) -> int:
        """Values that are narrower, being complete."""
        return sum(piece.complete for piece in self.pieces) if self.saved else 0

    @property
    def moved_bits(self) -> float | None:
        """Bits of the values, of all instances; None where `bits` is."""
        if self.bits is None:
            return None
        narrower = self.complete * self.saved * self.bits / self.per_value if self.complete else 0
        return (self.values * self.bits - narrower) * self.instances


@dataclass(frozen=True, slots=True)
class Life:
    """One buffer: `bits` in its largest instance; it comes to life `times` and lives while `einsums` run.

    Each life begins with the node or branch `begins` and ends with the end of `ends`; () stands for the whole run.
    `copies`: how many of them there are at one time at most, where stages of a Pipeline work on several tiles.
    """

    tensor: str
    memory: str
    address: Address
    bits: float
    begins: Address
    ends: Address
    times: int
    einsums: tuple[str, ...]
    persistent: bool
    copies: int = 1


@dataclass(frozen=True, slots=True)
class Fullest:
    """A memory at its fullest, while `einsum` runs: `bits` of `capacity`; `live`: (tensor, node, bits)."""

    memory: str
    einsum: str
    bits: float
    capacity: float
    live: tuple[tuple[str, Address, float], ...]

    @property
    def free(self) -> float:
        """Bits that stay free in the fullest moment."""
        return self.capacity - self.bits


@dataclass(frozen=True, slots=True)
class Occupied:
    """The most bits in one instance of a memory while an Einsum runs."""

    einsum: str
    memory: str
    bits: float


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """Limit of the latency (s) of one Einsum: `busy`, (component, seconds) slowest first, and which `limit` it.

    These are those that work longest, or what an Einsum that takes longer than they do waits for.
    """

    einsum: str
    busy: tuple[tuple[str, float], ...]
    latency: float
    limited_by: tuple[str, ...]

    @property
    def margin(self) -> float | None:
        """How many times the next component's time the slowest one takes; None where nothing follows."""
        if len(self.busy) < 2 or not self.busy[1][1]:
            return None
        return self.busy[0][1] / self.busy[1][1]


@dataclass(frozen=True, slots=True)
class EnergyShare:
    """A part of the energy, in J; `tensor` is None for operations and leakage."""

    component: str
    tensor: str | None
    action: str
    energy: float
    share: float


@dataclass(frozen=True)
class Change:
    """One change of the specification and the cost of what it gives, evaluated anew.

    `sets`: (path, value) for `Spec.set`; `mapping`: the LoopTree where the change needs another one, `rewrite` how
    `einmap rewrite --do` makes it, where it can. `needs_bits`: what `component` must hold at one time for that mapping,
    of `capacity` now. `used`: the lanes in use, and how many there are.
    """

    kind: Literal["throughput", "capacity", "fanout"]
    component: str
    what: str
    sets: tuple[tuple[str, Any], ...]
    mapping: Mapping | None
    energy: float
    latency: float
    energy_change: float
    latency_change: float
    needs_bits: float | None = None
    capacity: float | None = None
    used: tuple[int, int] | None = None
    rewrite: str | None = None

    @property
    def fits(self) -> bool:
        """Whether the hardware as it is can do it: the mapping alone changes."""
        return not self.sets


@dataclass(frozen=True, slots=True)
class Fanout:
    """Lanes that an Einsum uses of a fanout."""

    einsum: str
    component: str
    dimension: str
    used: int
    available: int


@dataclass(frozen=True, slots=True)
class SavingCause:
    """Actions that one cause makes or saves, on average over masks, all instances; so many as in `Cost.actions`.

    `state`: "dense", what dense tensors would take; "not stored", since the format of the memory `at` leaves out zeros
    of `leader`; "gated" or "skipped", since a saving at `at` finds no nonzero of `leader`; "done", what is left;
    "metadata", what formats add. Dense actions are those that are not stored, gated, skipped and done. `energy`: J that
    are saved; J that are taken of "dense", "done" and "metadata".
    """

    einsum: str
    component: str
    tensor: str | None
    action: str
    state: Literal["dense", "not stored", "gated", "skipped", "done", "metadata"]
    at: str
    leader: str | None
    count: float
    energy: float


@dataclass(frozen=True)
class Explanation:
    """Why a mapping costs what it does under `exact`. `order`: the Einsums as they run.

    `unexplained`: counts that have no derivation although they cost something, and why. `savings`: the causes of each
    count of Einsums whose zeros save something, in place of its derivation.
    """

    cost: Cost
    order: tuple[str, ...]
    cases: tuple[NodeCases, ...]
    stationary: tuple[Stationary, ...]
    derivations: tuple[Derivation, ...]
    lives: tuple[Life, ...]
    fullest: tuple[Fullest, ...]
    occupied: tuple[Occupied, ...]
    bottlenecks: tuple[Bottleneck, ...]
    energy: tuple[EnergyShare, ...]
    fanouts: tuple[Fanout, ...]
    changes: tuple[Change, ...]
    unexplained: tuple[Note, ...] = ()
    savings: tuple[SavingCause, ...] = ()

    @cached_property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the evaluation, and what is not explained."""
        return (*self.cost.notes, *self.unexplained)

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON; addresses as `nodes[3].nodes[0]`, mappings left out."""
        derivations = [
            {**_plain(d), "pieces": [{**_plain(p), "values": p.values} for p in d.pieces], "count": d.count}
            for d in self.derivations
        ]
        changes = [
            {**{k: v for k, v in vars(c).items() if k != "mapping"}, "moves": c.mapping is not None}
            for c in self.changes
        ]
        return {
            "schema": SCHEMA,
            "energy": self.cost.energy,
            "latency": self.cost.latency,
            "cases": [{**_plain(c), "reuse": c.reuse, "overlap": c.overlap} for c in self.cases],
            "stationary": [_plain(s) for s in self.stationary],
            "derivations": derivations,
            "lives": [_plain(life) for life in self.lives],
            "fullest": [_plain(f) for f in self.fullest],
            "occupied": [_plain(o) for o in self.occupied],
            "bottlenecks": [{**_plain(b), "margin": b.margin} for b in self.bottlenecks],
            **({"pipelines": [asdict(row) for row in self.cost.pipelines]} if self.cost.pipelines else {}),
            **({"savings": [_plain(row) for row in self.savings]} if self.savings else {}),
            "energy_shares": [_plain(e) for e in self.energy],
            "fanouts": [_plain(f) for f in self.fanouts],
            "changes": changes,
            "notes": [str(note) for note in self.notes],
        }


_ADDRESSES = ("address", "child_address", "station", "begins", "ends")


def _plain(value: Any) -> dict[str, Any]:
    return {key: _shown(key, inner) for key, inner in asdict(value).items()}


def _shown(key: str, value: Any) -> Any:
    if key in _ADDRESSES:
        return format_address(value)
    if isinstance(value, tuple | list) and value and all(isinstance(inner, dict) for inner in value):
        return [{k: _shown(k, v) for k, v in inner.items()} for inner in value]
    if key == "live":
        return [{"tensor": t, "address": format_address(a), "bits": b} for t, a, b in value]
    if key == "busy":
        return [{"component": c, "seconds": s} for c, s in value]
    return value
