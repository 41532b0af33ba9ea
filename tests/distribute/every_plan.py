"""Every plan of a small problem, from the definitions alone: this knows nothing of the search or of what it searches.

Loops: every rank variable over any axes in any order, in equal blocks, or in those of a longer split whose last axes
are left out. Placements follow from loops; what an Einsum is linear in is found by evaluating it. Moves are those of
`plan.Move`. Indices of the Einsums are plain rank variables.
"""

import heapq
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, count, permutations, product
from math import prod

import numpy as np

from einmap.distribute.placements.placement import Placement, Split
from einmap.einsum.numeric import compute, rank_sizes

INF = float("inf")


def subsets(items, least=0):
    """All of them, in order."""
    items = list(items)
    return chain.from_iterable(combinations(items, length) for length in range(least, len(items) + 1))


@dataclass(frozen=True, eq=False)
class World:
    """A workload whose indices are plain, a mesh, a cost model; `bits` of all values; `starts`: placements of inputs."""

    workload: object
    mesh: object
    model: object
    bits: float = 64.0
    starts: object = None

    @cached_property
    def axes(self):
        return [name for name, size in self.mesh.axes if size > 1]

    @cached_property
    def sizes(self):
        return rank_sizes(self.workload)

    def blocks(self, size):
        """All (axes, block) in which `size` coordinates may lie."""
        chains = [order for some in subsets(self.axes, 1) for order in permutations(some)]
        if size == 1:
            return set()
        return {
            (axes[:end], -(-size // self.mesh.parts(axes)) * self.mesh.parts(axes[end:]))
            for axes in chains
            for end in range(1, len(axes) + 1)
        }

    def values(self, tensor, placement):
        """Values of the buffer of one PE."""
        blocks = {split.rank: split.block for split in placement.splits}
        return prod(blocks.get(rank, size) for rank, size in self.sizes[tensor].items())

    @cached_property
    def places(self):
        """All placements of each tensor, complete and partial."""
        kinds = {tensor: self._kinds(tensor) for tensor in self.workload.tensors}
        made = {}
        for tensor, ranks in self.sizes.items():
            found = set()
            for picked in product(*([None, *self.blocks(size)] for size in ranks.values())):
                splits = [Split(r, *part) for r, part in zip(ranks, picked, strict=True) if part is not None]
                used = [axis for split in splits for axis in split.axes]
                if len(used) == len(set(used)):
                    rest = [axis for axis in self.axes if axis not in used]
                    found |= {
                        Placement(tuple(splits), over, kind) for over in subsets(rest) for kind in kinds[tensor] or ["sum"]
                        if kinds[tensor] or not over
                    }  # fmt: skip
            made[tensor] = sorted(found, key=str)
        return made

    def _kinds(self, tensor):
        """How the parts of a tensor may be joined: as its Einsum reduces, or as those of what it is linear in."""
        producer = self.workload.producers.get(tensor)
        return set() if producer is None else {"sum", self.workload.by_name[producer].operation.reduction}

    def free_starts(self, tensor):
        """Where a graph input may lie at the beginning."""
        if self.starts is not None and tensor in self.starts:
            return [self.starts[tensor]]
        return [placement for placement in self.places[tensor] if not placement.partial]

    # moves

    @cached_property
    def moves(self):
        """For each tensor and placement, the moves: kind, placement after, cost, all values that are sent."""
        return {t: {here: list(self._moves(t, here)) for here in places} for t, places in self.places.items()}

    def _moves(self, tensor, here):
        known = set(self.places[tensor])
        for kind, axes, after in moves_of(self, tensor, here):
            if after in known:
                operand, result = self.values(tensor, here), self.values(tensor, after)
                parts = self.mesh.parts(axes)
                if kind == "reduce_scatter":
                    operand = result * parts  # padded to whole blocks
                if kind == "all_gather":
                    result = operand * parts
                if kind == "all_to_all":
                    scattered = next(s for s in after.splits if s.axes[-len(axes) :] == axes and s not in here.splits)
                    now = {s.rank: s.block for s in here.splits}.get(scattered.rank, self.sizes[tensor][scattered.rank])
                    operand = result = operand // now * scattered.block * parts
                price = 0.0
                if kind != "slice":
                    price = self.model.move(kind, self.mesh, axes, operand * self.bits, result * self.bits)
                yield kind, after, price
        for after in known - {here}:
            if blocks_in_common(self.mesh, here) == blocks_in_common(self.mesh, after):
                axes, senders = exchange(self.mesh, here, after)
                values = self.values(tensor, here) * self.bits
                yield "permute", after, self.model.move("permute", self.mesh, axes, values, values, senders)

    # Einsums

    @cached_property
    def ways(self):
        """For each Einsum the cheapest way of each combination of placements: {placements: cost}."""
        return {einsum.name: self._ways(einsum) for einsum in self.workload.einsums}

    def _ways(self, einsum):
        best = {}
        linear = {kind: linear_in(einsum, self.sizes, kind) for kind in ("sum", "max", "min")}
        for spread in self._spreads(einsum):
            used = {axis for axes, _ in spread.values() for axis in axes}
            free = [axis for axis in self.axes if axis not in used]
            offers = [None, *((kind, some) for kind in linear for some in linear[kind])]
            for staying in product(offers, repeat=len(free)):
                over = [(axis, *way) for axis, way in zip(free, staying, strict=True) if way is not None]
                placed = self._placed(einsum, spread, over)
                if placed is not None:
                    cost = self._cost(einsum, spread, placed)
                    best[placed] = min(best.get(placed, INF), cost)
        return best

    def _spreads(self, einsum):
        options = [[None, *self.blocks(extent)] for extent in einsum.extents.values()]
        for picked in product(*options):
            spread = {v: part for v, part in zip(einsum.extents, picked, strict=True) if part is not None}
            used = [axis for axes, _ in spread.values() for axis in axes]
            if len(used) == len(set(used)):
                yield spread

    def _placed(self, einsum, spread, staying):
        placed = []
        for access in einsum.accesses:
            splits, used = [], set()
            for rank, index in access.projection:
                part = spread.get(str(index))
                if part is not None and not used & set(part[0]):
                    splits.append(Split(rank, *part))
                    used |= set(part[0])
            over = [(axis, kind) for axis, kind, tensors in staying if access.output or access.tensor in tensors]
            if access.output:
                summed = [axis for v, (axes, _) in spread.items() if v not in access.variables for axis in axes]
                if summed and einsum.is_copy:
                    return None
                over += [(axis, einsum.operation.reduction) for axis in summed]
            kinds = {kind for _, kind in over}
            if len(kinds) > 1:
                return None
            placed.append(Placement(tuple(splits), tuple(axis for axis, _ in over), min(kinds, default="sum")))
        return tuple(placed)

    def _cost(self, einsum, spread, placed):
        from einmap.distribute.costs.cost_model import LocalWork, operations_per_point

        extents = tuple(spread[v][1] if v in spread else extent for v, extent in einsum.extents.items())
        moved = sum(self.values(a.tensor, p) for a, p in zip(einsum.accesses, placed, strict=True)) * self.bits
        operations = prod(extents) * operations_per_point(einsum)
        work = LocalWork(extents, operations, operations, moved, self.bits)
        return self.model.of(einsum).compute(self.mesh, work)


def moves_of(world, tensor, here):
    """(kind, axes, placement after) of every move of one tensor, as the docstring of `plan.Move` has it."""
    sizes, mesh = world.sizes[tensor], world.mesh
    split = {s.rank: (s.axes, s.block) for s in here.splits}

    def placed(changed, partial=here.partial):
        now = {**split, **changed}
        return Placement(tuple(Split(r, *p) for r, p in now.items() if p[0]), partial, here.reduction)

    def without(rank, length):
        axes, block = split[rank]
        return axes[:-length], block * mesh.parts(axes[-length:])

    def finer(rank, axes):
        """The rank split further over `axes`, in every block that nests."""
        old, block = split.get(rank, ((), None))
        for axes_then, new in world.blocks(sizes[rank]):
            if axes_then == (*old, *axes) and block in (None, new * mesh.parts(axes)):
                yield rank, (axes_then, new)

    for some in subsets(here.partial, 1):
        yield "all_reduce", some, placed({}, tuple(axis for axis in here.partial if axis not in some))
    for rank, (axes, _) in split.items():
        for length in range(1, len(axes) + 1):
            yield "all_gather", axes[-length:], placed({rank: without(rank, length)})
            for other in sizes:
                if other != rank:
                    for wide, part in finer(other, axes[-length:]):
                        yield "all_to_all", axes[-length:], placed({rank: without(rank, length), wide: part})
    unused = [axis for axis in world.axes if axis not in here.used]
    for rank in sizes:
        for some in chain.from_iterable(permutations(s) for s in subsets(unused, 1)):
            for wide, part in finer(rank, some):
                yield "slice", some, placed({wide: part})
        if here.reduction == "sum":
            for some in chain.from_iterable(permutations(s) for s in subsets(here.partial, 1)):
                for wide, part in finer(rank, some):
                    left = tuple(axis for axis in here.partial if axis not in some)
                    yield "reduce_scatter", some, placed({wide: part}, left)


def blocks_in_common(mesh, placement):
    """What two placements share whose blocks are the same, held by other PEs."""
    splits = {(split.rank, split.block, mesh.parts(split.axes)) for split in placement.splits}
    return splits, mesh.parts(placement.partial), placement.reduction


def exchange(mesh, here, after):
    """The axes that another block lies along afterwards, and the part of the PEs that have another block then.

    Addends have no order: those that lie along an axis before and after lie along it as before.
    """
    stays = [axis for axis in here.partial if axis in after.partial]

    def block(place, coordinates):
        lines = [split.axes for split in place.splits]
        lines += [(*stays, *(axis for axis in place.partial if axis not in stays))]
        counts = [([coordinates[a] for a in line], [mesh.size(a) for a in line]) for line in lines if line]
        return [int(np.ravel_multi_index(*count)) for count in counts]

    def differs(coordinates):
        return block(here, coordinates) != block(after, coordinates)

    axes = tuple(a for a, size in mesh.axes if size > 1 and differs({b: int(a == b) for b in mesh.names}))
    return axes, np.mean([differs(mesh.coordinates(device)) for device in range(mesh.n_devices)])


def linear_in(einsum, sizes, kind):
    """Sets of operands whose addends (candidates of the maximum or minimum) make addends of the result."""
    rng = np.random.default_rng(0)
    join = {"sum": np.add, "max": np.maximum, "min": np.minimum}[kind]
    found = []
    for some in subsets(sorted(einsum.inputs), 1):

        def drawn(tensor):
            return rng.uniform(-1.5, 1.5, tuple(sizes[tensor].values()))  # fmt: skip

        rest = {tensor: drawn(tensor) for tensor in einsum.inputs if tensor not in some}
        one, two = ({tensor: drawn(tensor) for tensor in some} for _ in range(2))
        both = {tensor: join(one[tensor], two[tensor]) for tensor in some}
        with np.errstate(all="ignore"):
            results = [compute(einsum, {**rest, **part}) for part in (one, two, both)]
        same = all(np.allclose(join(a, b), c) for a, b, c in zip(*(r.values() for r in results), strict=True))
        # of maxima and minima only where the values of the operand are those of the result
        kept = kind == "sum" or all(np.isin(v, next(iter(both.values()))).all() for v in results[2].values())
        if same and kept:
            found.append(frozenset(some))
    return found


# plans without a limit on memory


def least_cost(world):
    """The least cost of all ways and all sequences of moves: for each tensor the cheapest tree of its placements."""
    trees = {tensor: Trees(world, tensor) for tensor in world.workload.tensors}
    least = INF
    names = world.workload.einsum_names
    for picked in product(*(world.ways[name].items() for name in names)):
        total = sum(cost for _, cost in picked)
        lies = {
            (einsum.name, access.tensor): place
            for einsum, (placed, _) in zip(world.workload.einsums, picked, strict=True)
            for access, place in zip(einsum.accesses, placed, strict=True)
        }
        for tensor in world.workload.tensors:
            if total >= least:
                break
            needs = frozenset(lies[reader, tensor] for reader in world.workload.consumers[tensor])
            total += trees[tensor].cost(needs, lies.get((world.workload.producers.get(tensor), tensor)))
        least = min(least, total)
    return least


class Trees:
    """The cheapest ways to make versions of one tensor (Dreyfus and Wagner, "The Steiner problem in graphs", 1971)."""

    def __init__(self, world, tensor):
        self.number = {placement: n for n, placement in enumerate(world.places[tensor])}
        self.between = np.full((len(self.number),) * 2, INF)
        np.fill_diagonal(self.between, 0)
        for here, moves in world.moves[tensor].items():
            for _, after, price in moves:
                pair = self.number[here], self.number[after]
                self.between[pair] = min(self.between[pair], price)
        for _ in self.number:  # one move more each time
            self.between = np.minimum(self.between, (self.between[:, :, None] + self.between[None]).min(axis=1))
        self.produced = tensor in world.workload.producers
        self.ends = world.workload.consumers[tensor] == ()
        self.starts = [self.number[p] for p in world.places[tensor] if not p.partial]
        if not self.produced:
            self.starts = [self.number[p] for p in world.free_starts(tensor)]
        self.known = {}

    def cost(self, needs, produced):
        """To be read at all of `needs`, from where it came out (None: a graph input)."""
        if any(place not in self.number for place in (*needs, *([produced] if produced else []))):
            return INF
        wanted = frozenset(self.number[place] for place in needs)
        if produced is None:
            return min(self._tree(wanted)[start] for start in self.starts)
        begin = self.number[produced]
        if wanted:
            return self._tree(wanted)[begin]
        return self.between[begin, self.starts].min()

    def _tree(self, needs):
        if needs not in self.known:
            if len(needs) <= 1:
                made = self.between[:, min(needs)] if needs else np.zeros(len(self.between))
            else:
                first = min(needs)
                parts = [frozenset({first, *p}) for p in subsets(needs - {first}) if len(p) < len(needs) - 1]
                made = (self.between + np.min([self._tree(p) + self._tree(needs - p) for p in parts], axis=0)).min(
                    axis=1
                )
            self.known[needs] = made
        return self.known[needs]


# plans within a limit on memory


def least_cost_within(world, memory, below=INF, most_states=200_000):
    """The least cost of all plans that hold at most `memory` bytes on each PE at any time; `below` where none costs
    less; None where there are too many to look at.

    A state is the next Einsum and the versions that are held: a walk over states makes any moves at any time (Dijkstra).
    """
    inputs = [tensor for tensor in world.workload.tensors if tensor not in world.workload.producers]
    order, seen = count(), {}
    queue = []
    for homes in product(*(world.free_starts(tensor) for tensor in inputs)):
        kept = frozenset(zip(inputs, homes, strict=True))
        heapq.heappush(queue, (0.0, next(order), 0, kept, kept))
    while queue:
        cost, _, position, held, kept = heapq.heappop(queue)
        if cost >= below:
            break
        if seen.get((position, held, kept), INF) <= cost:
            continue
        seen[position, held, kept] = cost
        if len(seen) > most_states:
            return None
        if position == len(world.workload.einsums) and _is_done(world, held):
            return cost
        for price, after, then in _steps(world, position, held, kept, memory):
            if cost + price < below:
                heapq.heappush(queue, (cost + price, next(order), after, then, kept))
    return below


def _is_done(world, held):
    complete = {tensor for tensor, place in held if not place.partial}
    return all(tensor in complete for tensor in world.workload.tensors if not world.workload.consumers[tensor])


def _steps(world, position, held, kept, memory):
    """Every version may be given up that is not a graph input; one may be moved; the next Einsum may be computed."""
    needed = {t for e in world.workload.einsums[position:] for t in e.inputs} | {
        t for t in world.workload.tensors if not world.workload.consumers[t]
    }
    for one in held - kept:
        yield 0.0, position, held - {one}
    by_tensor = defaultdict(list)
    for tensor, place in held:
        by_tensor[tensor].append(place)
    size = sum(world.values(*one) for one in held) * world.bits / 8
    if size > memory:
        return
    for tensor, place in held:
        for _, after, price in world.moves[tensor][place] if tensor in needed else ():
            if after not in by_tensor[tensor] and size + world.values(tensor, after) * world.bits / 8 <= memory:
                yield price, position, held | {(tensor, after)}
    if position == len(world.workload.einsums):
        return
    einsum = world.workload.einsums[position]
    for placed, price in world.ways[einsum.name].items():
        pairs = list(zip(einsum.accesses, placed, strict=True))
        if all((a.tensor, place) in held for a, place in pairs if not a.output):
            results = frozenset((a.tensor, place) for a, place in pairs if a.output)
            if size + sum(world.values(*one) for one in results) * world.bits / 8 <= memory:
                yield price, position + 1, held | results
