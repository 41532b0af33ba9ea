"""Seconds of fast code, predicted from its nest: what it computes, visits, packs, and what caches miss.

The model counts what a mapping says. Here caches hold what was used last (`misses`), packing and the visits of register
tiles take time, and a core has ports: multiply-adds, stores and instructions of a register tile overlap, and the
busiest counts. It overlaps with loads and with transfers into each cache, as in the ECM model of processors whose
caches overlap (Stengel et al., "Quantifying performance bottlenecks of stencil computations", 2015), but not wholly:
one waits for another, the more the nearer they are. Packing and register tiles follow one another, but for what
register tiles fetch ahead of it.

On several cores each takes its part of the loops that are spread, and of the copies that are packed outside them;
caches that cores share are cut evenly among them.

Rates and sizes are the architecture's. What it does not say is below: documented figures, and for visits, left loops
and packed lines the order of what is seen on a Zen 4 core.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf, prod

from einmap.arch.component import Compute, Memory, Toll
from einmap.bench.misses import LINE as LINE_BYTES
from einmap.bench.misses import WAYS, Array, Reuse
from einmap.emit.fast.cascade import Cascade
from einmap.emit.fast.nest import BYTES, Held, Loop, Nest
from einmap.matmul.measured.as_arch import USABLE, USABLE_FURTHER_OUT
from einmap.model.cost import Cost
from einmap.spec.spec import Spec

LATENCY = 4
"""Steps until a multiply-add is there for the next one of the same sum (Zen 4, Intel since Skylake)."""
WINDOW = 320
"""Instructions that are under way at once: Zen 4's; waits of one register tile hide behind the next one within it."""
WIDTH = 6
"""Instructions that begin in a step (Zen 4)."""
STORE = 2
"""Steps of a store of a vector, of 64 bytes on Zen 4."""
VISIT = 5
"""Instructions around a register tile: its addresses, and the loop about it."""
CONTROL = 3
"""Instructions of a turn of a loop inside the register tile: add, compare, branch."""
UNROLLED = 200, 16
"""Instructions, and turns, up to which GCC writes out a loop: `max-completely-peeled-insns`, `-peel-times`."""
LEFT = 8
"""Steps to leave a loop that is not written out: half of a branch that is not foreseen."""
LINE = 4
"""Steps to begin a line of what is packed: its address, and how long it is."""
OVERLAP = 3
"""Parts that go on at once take the root of the sum of so many powers: 1 would be one after another, infinity the
busiest alone. Of the order of what is seen."""
SLOT = 0.5
"""Steps in which a store of a vector keeps the nearest cache from serving loads, of the order of what is seen."""
ALIAS = 4
"""Steps that a load waits for a store of the same visit to an address that differs by a multiple of `PAGE`."""
PAGE = 4096
"""Bytes: addresses that differ by a multiple of it look alike to a load that searches stores before it."""
NEXT = 14
"""Steps until a line comes from the next cache (L2 of Zen 4)."""
AGAIN = 2
"""Steps in which a line that a set had no room for comes from the next cache once more (32 bytes in one, Zen 4)."""
QUAD = 4
"""Values that compilers store at once where so many, or a multiple, are packed side by side."""
FORK = 2e-6
"""Seconds until several cores have begun and ended a loop that is spread over them, of the order of what is seen."""


@dataclass(frozen=True, slots=True)
class Cache:
    """A cache of `size` bytes, into which `rate` bytes/s come."""

    name: str
    size: float
    rate: float


@dataclass(frozen=True, slots=True)
class Core:
    """A core: `step` in s of a multiply-add of a vector, `loads` of a vector in a step; `caches` from the nearest out.

    `registers`: of a vector.
    """

    step: float
    loads: float
    registers: int
    caches: tuple[Cache, ...]


@dataclass(frozen=True, slots=True)
class Prediction:
    """Seconds of one run: while register tiles are computed, and while inputs are packed. `missed`: bytes by cache."""

    tiles: float
    packing: float
    missed: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Seconds of the whole run."""
        return self.tiles + self.packing


def core_of(spec: Spec, nest: Nest) -> Core | None:
    """The core of an architecture like those of `einmap machine --this-cpu`; None where rates or sizes are missing.

    None, too, for narrow inputs, whose packed tiles are wider than they.

    Its outermost memory is main memory, the innermost one the registers, what lies between them are caches; the first
    Toll is the load-store unit.
    """
    components = spec.archs[nest.einsum.name].components.values()
    memories = [c for c in components if isinstance(c, Memory)]
    computes = [c for c in components if isinstance(c, Compute)]
    if nest.narrow or len(memories) < 3 or len(computes) != 1:
        return None
    rate = _rate(computes[0], "compute")
    vector = nest.tile.lanes * _output_bits(nest)
    loads = next((_rate(c, "read") / vector for c in components if isinstance(c, Toll)), 2 * rate)
    *caches, registers = memories[1:]
    cores, instances = cores_of(nest), spec.archs[nest.einsum.name].instances
    shared = [min(cores, instances[registers.name] / instances[c.name]) for c in caches]
    sizes = [c.size_bits / 8 / USABLE.get(len(caches) - n, USABLE_FURTHER_OUT) for n, c in enumerate(caches)]
    rates = [_rate(c, "write") / 8 for c in caches]
    if not 0 < rate < inf or loads <= 0 or min(*sizes, *rates) <= 0 or registers.size_bits == inf:
        return None
    sizes = [size / n for size, n in zip(sizes, shared, strict=True)]
    found = [Cache(c.name, size, r) for c, size, r in zip(caches, sizes, rates, strict=True)]
    return Core(1 / rate, loads / rate, int(registers.size_bits // vector), tuple(reversed(found)))


def predicted(nest: Nest, core: Core, *, warm: bool = True) -> Prediction:
    """Seconds of one run. `warm`: the same nest has run just before. A map of its values is left out."""
    reuse = Reuse(nest, {a.tensor: a.bits_per_value / 8 for a in nest.einsum.accesses})
    visits = _visits(nest, core)
    tiles, packing = [visits.computed * core.step], [_pack_steps(nest, reuse) * core.step]
    missed = {}
    for cache in core.caches:
        found = reuse.bytes_into(cache.size, warm=warm)
        sources = {array: b for array, b in found.items() if array.kind == "source"}
        packed = {array.tensor: b * reuse.packed_part(array) for array, b in sources.items()}
        others, all_packed = sum(found.values()) - sum(sources.values()), sum(packed.values())
        ahead = 0.0
        if nest.ahead is not None and cache is not core.caches[0]:
            ahead = packed[nest.ahead.tensor] * nest.ahead.part(nest.tile.vectors)
        missed[cache.name] = others + all_packed
        tiles.append((others + ahead) / cache.rate)
        packing.append((all_packed - ahead) / cache.rate)
    tiles.append(visits.moved * core.step)
    return Prediction(together(tiles) + visits.left * core.step + _forks(nest) * FORK, max(packing), missed)


def together(seconds: Iterable[float]) -> float:
    """Seconds of what goes on at once: more than the longest of it, less than all of it one after another."""
    times = tuple(seconds)
    longest = max(times)
    return longest * sum((t / longest) ** OVERLAP for t in times) ** (1 / OVERLAP) if longest else 0.0


def seconds_of(spec: Spec, cost: Cost, nest: Nest | Cascade) -> float:
    """Predicted seconds of a mapping, of which `cost` and `nest` are.

    From its nest. What is not predicted for from the energy of an architecture of `einmap machine --this-cpu`,
    which is the seconds that its cores take together, and from the part of it that the busiest core has.
    """
    if isinstance(nest, Nest) and (core := core_of(spec, nest)) is not None:
        return predicted(nest, core).seconds
    loops = nest.loops.values() if isinstance(nest, Cascade) else nest.loops
    return cost.energy * prod(loop.tile / loop.extent for loop in loops if loop.lanes)


def cores_of(nest: Nest) -> int:
    """Cores that the nest uses."""
    return prod(loop.iterations for loop in nest.loops if loop.lanes)


def _forks(nest: Nest) -> int:
    """How many times all cores begin and end something together: loops that are spread, and packing outside them."""
    turns, forks = 1, 0
    for step in nest.steps:
        if isinstance(step, Loop) and step.lanes:
            return forks + turns
        if isinstance(step, Loop):
            turns *= step.iterations
        elif step.packed is not None:
            forks += turns
    return 0


def _rate(component: Memory | Compute | Toll, action: str) -> float:
    """Actions in a second; 0 where the component has no such action."""
    return next((a.throughput for a in component.actions if a.name == action), 0.0)


def _output_bits(nest: Nest) -> float:
    return next(a.bits_per_value for a in nest.einsum.accesses if a.tensor == nest.output)


@dataclass(frozen=True, slots=True)
class Visits:
    """Steps of all register tiles, of those that are cut off all rows, and vectors in full.

    `computed`: of the busiest port but for loads; `moved`: of loads, and of stores in their way; `left`: to leave
    loops, and to wait for lines that are fetched twice, or for stores which loads only seem to need.
    """

    computed: float
    moved: float
    left: float


def _visits(nest: Nest, core: Core) -> Visits:
    tile, kept = nest.tile, nest.ranks[nest.output]
    sums = prod(n for _, n in tile.rows) * tile.vectors
    loads, instructions, shared = _reads(nest, core)
    multiplies = sums * max(1, len(nest.inputs) - 1)
    held = sums if nest.window is None else sums // tile.vectors
    spilled = max(0, held + shared + 1 - core.registers)
    calls = prod(loop.iterations for loop in nest.loops if not loop.lanes)
    outside = [loop for loop in nest.loops if loop.variable not in kept]
    turns = prod(n for v, n in nest.einsum.bounds if v not in kept) / prod(loop.iterations for loop in outside)
    control, left = _loops(nest, turns, instructions + multiplies) if nest.window is None else (0.0, 0.0)
    added = sums if outside else 0
    issued = (instructions + multiplies + control + 2 * spilled) * turns + 3 * sums + VISIT
    busiest = max(
        multiplies * turns + added,
        STORE * (sums + spilled * turns),
        issued / WIDTH,
        LATENCY * turns / max(1, WINDOW / issued),
    )
    widths = nest.sizes(tile.axis)
    vectors = sum(count * -(-size // tile.lanes) for size, count in widths.items()) / widths.total()
    whole = calls * vectors / tile.vectors
    alike, evicted = _alike(nest)
    again = sum(_crowded(nest, tensor) for tensor in nest.in_place)
    waits = (ALIAS * alike if outside else 0) + NEXT * evicted + AGAIN * again * turns
    return Visits(whole * busiest, whole * (loads * turns + added + SLOT * sums), calls * (left + waits))


def _reads(nest: Nest, core: Core) -> tuple[float, float, int]:
    """Steps and instructions of loads in a turn inside a register tile, and registers of vectors that rows share.

    Of a window the part of a turn in what the whole tile reads; taps that find no registers are read for each sum.
    """
    tile, loads, instructions, shared = nest.tile, 0.0, 0.0, 0
    if (window := nest.window) is not None:
        turns = prod(n for _, n in tile.reduced)
        rows = prod(n for _, n in tile.rows)
        read = tile.vectors * (window.places / turns + (1 if window.kept else rows))
        return read * 2 / core.loads, read, turns + 1 if window.kept else 1
    for tensor in nest.inputs:
        rows = prod(n for v, n in tile.rows if v in nest.ranks[tensor])
        along = tile.axis in nest.ranks[tensor]
        instructions += rows * tile.vectors if along else rows
        # two of the narrow loads in a step, and two halves of a vector
        loads += rows * tile.vectors * 2 / core.loads if along else rows / core.loads
        shared += tile.vectors if along and rows == 1 else 0
    if nest.ahead is not None:
        loads, instructions = loads + 1 / core.loads, instructions + 1
    return loads, instructions, shared


def _alike(nest: Nest) -> tuple[int, int]:
    """Vectors of a register tile whose place in memory is that of an earlier one but for a multiple of `PAGE`.

    And those of them for which a set of the nearest cache has no line left, so that they are fetched twice: once ahead,
    and again when they are written.
    """
    strides, size = nest.strides(nest.output), BYTES[nest.real]
    starts = Counter({0: 1})
    for variable, rows in nest.tile.rows:
        moved = Counter[int]()
        for row in range(rows):
            for start, count in starts.items():
                moved[(start + row * strides[variable] * size) % PAGE] += count
        starts = moved
    vectors = Counter[int]()
    for start, count in starts.items():
        for part in range(nest.tile.vectors):
            vectors[(start + part * nest.tile.lanes * size) % PAGE] += count
    return vectors.total() - len(vectors), sum(max(0, count - WAYS) for count in vectors.values())


def _crowded(nest: Nest, tensor: str) -> int:
    """Lines of an input, read in its place by all rows of a register tile, above the ways of the sets of its cache.

    They throw one another out, so that they come again for each value of a row.
    """
    strides, size = nest.strides(tensor), BYTES[nest.real]
    starts = {0}
    for variable, rows in nest.tile.rows:
        step = strides.get(variable, 0) * size
        starts = {start + row * step for start in starts for row in range(rows)}
    if nest.tile.axis in strides:
        starts = {start + part * nest.tile.lanes * size for start in starts for part in range(nest.tile.vectors)}
    sets = Counter(line % (PAGE // LINE_BYTES) for line in {start // LINE_BYTES for start in starts})
    return sum(max(0, count - WAYS) for count in sets.values())


def _loops(nest: Nest, turns: float, body: float) -> tuple[float, float]:
    """Instructions of loop control in a turn of the innermost loop, and steps to leave loops in a register tile."""
    instructions, most = UNROLLED
    control, left, entries, is_written_out = 0.0, 0.0, turns, True
    for place, (_, n) in enumerate(reversed(nest.tile.reduced)):
        entries /= n
        body *= n
        is_written_out = is_written_out and n <= most and body <= instructions
        if not is_written_out:
            left += LEFT * entries
            control = CONTROL if place == 0 else control
    return control, left


def _pack_steps(nest: Nest, reuse: Reuse) -> float:
    """Steps of all packing: a store for a vector along the last rank, else for each value.

    Of values side by side in multiples of 4 compilers store four at once; two are loaded in a step.
    """
    total = 0.0
    for depth, step in enumerate(nest.steps):
        if not isinstance(step, Held) or step.packed is None:
            continue
        around = prod(s.iterations for s in nest.steps[:depth] if isinstance(s, Loop) and not s.lanes)
        layout, extents = step.packed.layout, reuse.extents[depth]
        values = prod(extents[v] for v in nest.ranks[step.tensor])
        fast, width, _ = (*layout.steps, *layout.tile)[-1] if layout.steps or layout.tile else ("", 1, 1)
        is_along = nest.strides(step.tensor).get(fast) == 1
        copy = Array(step.tensor, "copy", depth)
        lines = layout.size * reuse.part(copy) / width
        alone = values / 2 if width % QUAD == 0 else values
        steps = (values / nest.tile.lanes if is_along else alone) + lines * LINE
        total += around * steps * reuse.packed_part(copy)
    return total
