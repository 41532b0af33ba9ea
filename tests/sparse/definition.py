"""The definition of what zeros save, in plain Python: point by point, with sets. Fills of outputs are left out."""

from __future__ import annotations

from itertools import product
from math import prod

from tests.sparse.encoded import Written, encoded

from einmap.arch.component import Memory
from einmap.model.counting.path import applies, path_of


class Definition:
    """One Einsum of a specification on masks (true where a value is nonzero, ranks in the order of the densities)."""

    def __init__(self, spec, name, masks):
        self.einsum, self.arch = spec.workload.by_name[name], spec.archs[name]
        self.path = path_of(spec.mapping, self.einsum, self.arch)
        self.sparsity, self.masks = spec.sparsity[name], masks
        self.points = list(self.all_points())
        self.counts: dict = {}
        self.bits: dict = {}

    def all_points(self):
        """Indices of all loops, and the values of the rank variables there."""
        for index in product(*(range(loop.iterations) for loop in self.path.loops)):
            start, size = dict.fromkeys(self.einsum.rank_variables, 0), dict(self.einsum.bounds)
            for loop, i in zip(self.path.loops, index, strict=True):
                first = loop.shape if loop.initial is None else loop.initial
                begin = 0 if i == 0 else first + (i - 1) * loop.shape
                size[loop.variable] = min(loop.shape if i else first, size[loop.variable] - begin)
                start[loop.variable] += begin
                if size[loop.variable] <= 0:
                    break
            else:
                assert set(size.values()) == {1}
                firsts = dict(self.einsum.first_values)
                yield index, {v: n + firsts.get(v, 0) for v, n in start.items()}

    def element(self, tensor, values):
        """The index of a tensor's value at a point."""
        by_rank = dict(self.einsum.by_tensor[tensor].projection)
        ranks = self.sparsity.ranks.get(tensor, tuple(by_rank))
        return tuple(by_rank[r].constant + sum(a * values[v] for v, a in by_rank[r].terms) for r in ranks)

    def nonzero(self, tensor, element):
        return tensor not in self.masks or bool(self.masks[tensor][element])

    def box(self, elements):
        """All indices between the smallest and the largest ones."""
        return list(product(*(range(min(c), max(c) + 1) for c in zip(*elements, strict=True)))) if elements[0] else [()]

    def merged(self, tensor, child, station):
        return {
            i
            for i, loop in enumerate(self.path.loops)
            if loop.level is not None
            and station.level < loop.level <= child.level
            and loop.variable not in self.einsum.by_tensor[tensor].variables
            and tensor in loop.dimension.may_reuse
        }

    def visits(self, child, without=()):
        """Points by visit of a station, lanes of the loops `without` together."""
        found: dict = {}
        for index, values in self.points:
            key = tuple(
                i if applies(loop, child) and n not in without else -1
                for n, (loop, i) in enumerate(zip(self.path.loops, index, strict=True))
            )
            found.setdefault(key, []).append((index, values))
        return found

    def states(self, tensor, stations, position):
        """State of each point in the exchange of the station at a position with the next memory outward."""
        child = stations[position]
        outward = [i for i in range(position) if isinstance(stations[i].component, Memory)]
        if not outward:
            return dict.fromkeys((index for index, _ in self.points), 0)
        parent = stations[outward[-1]]
        state = dict(self.states(tensor, stations, outward[-1]))
        for points in self.visits(child, self.merged(tensor, child, parent)).values():
            own = 0
            for saving in self.sparsity.at(parent.component.name, tensor):
                for leader in saving.on:
                    # a visit uses boxes: those of its lanes, one by one
                    lanes: dict = {}
                    for index, values in points:
                        lane = tuple(
                            i
                            for i, loop in zip(index, self.path.loops, strict=True)
                            if loop.level is not None and loop.level <= child.level
                        )
                        lanes.setdefault(lane, []).append(self.element(leader, values))
                    if not any(self.nonzero(leader, e) for elements in lanes.values() for e in self.box(elements)):
                        own = max(own, saving.state)
            for index, _ in points:
                state[index] = max(state[index], own)
        return state

    def add(self, table, key, amount):
        if amount:
            table[key] = table.get(key, 0) + amount

    def run(self):
        """Count inputs, results that go outward, and operations."""
        saved = dict.fromkeys((index for index, _ in self.points), 0)
        for access in self.einsum.accesses:
            stations = [*self.path.stations[access.tensor], self.path.compute]
            for position in range(1, len(stations)):
                if isinstance(stations[position].component, Memory) or position == len(stations) - 1:
                    state = self.states(access.tensor, stations, position)
                    self.exchange(access, stations, position, state)
            if not access.output:
                for index, _ in self.points:
                    saved[index] = max(saved[index], state[index])
        unit = self.path.compute.component.name
        for index, values in self.points:
            for saving in self.sparsity.at(unit, None):
                if not all(self.nonzero(t, self.element(t, values)) for t in saving.on):
                    saved[index] = max(saved[index], saving.state)
            self.add(self.counts, (unit, None, "compute", saved[index]), 1)
        return self

    def exchange(self, access, stations, position, state):
        child, tensor = stations[position], access.tensor
        chain = [child]
        for station in reversed(stations[:position]):
            chain.append(station)
            if isinstance(station.component, Memory):
                break
        for station in chain:
            if station is self.path.compute:
                continue
            is_toll = not isinstance(station.component, Memory)
            if is_toll and station.component.directions[tensor] == ("down" if access.output else "up"):
                continue
            action = "read" if is_toll or (station is child) != (not access.output) else "write"
            form = station if not is_toll else (child if access.output else chain[-1])
            merged = self.merged(tensor, child, station)
            for key, points in self.visits(child).items():
                if any(key[i] > 0 for i in merged):
                    continue
                tile = self.box([self.element(tensor, values) for _, values in points])
                filled = [e for e in tile if self.nonzero(tensor, e)]
                which = state[points[0][0]]
                name = (station.component.name, tensor, action, which)
                stored = self.sparsity.formats.get((form.component.name, tensor))
                if stored is not None and not stored.is_plain:
                    self.part(stored, access, (form, form is station), points, tile, name)
                    continue
                leaves_out = self.sparsity.compresses(form.component.name, tensor)
                self.add(self.counts, name, len(filled if leaves_out else tile))
                fmt = self.sparsity.formats.get((form.component.name, tensor)) if form is station else None
                if fmt is not None:
                    low, high = tuple(map(min, zip(*tile, strict=True))), tuple(map(max, zip(*tile, strict=True)))
                    window = tuple(slice(a, b + 1) for a, b in zip(low, high, strict=True))
                    self.add(self.bits, name, encoded(fmt, self.masks[tensor][window])[1])
                    assert prod(b - a + 1 for a, b in zip(low, high, strict=True)) == len(tile)

    def part(self, fmt, access, form, points, tile, name):
        """A part of the tile that a memory holds, in a format with blocks or padding."""
        station, has_metadata = form
        index, _ = points[0]
        (held,) = (of for of in self.visits(station).values() if any(i == index for i, _ in of))
        whole = self.box([self.element(access.tensor, values) for _, values in held])
        written = Written(fmt, [e for e in whole if self.nonzero(access.tensor, e)], whole, tile)
        self.add(self.counts, name, written.values)
        if has_metadata:
            self.add(self.bits, name, written.bits)
