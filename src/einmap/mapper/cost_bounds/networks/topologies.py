"""Costs of values on networks of each topology: steps, routes and links, for every use of the fanouts at a time.

Which link is the busiest depends on the mapping, but few links may be: each of these is a column of cost
(`columns.Link`), and its load is linear in the values that fill a node. All that goes to the lanes further along a
fanout passes the first link along it, so on a mesh and in a systolic array no other link along it has more. Round a
torus or a ring the outermost loop alone may go backward, to lanes that stand behind half of the way; what they share
goes forward. So the busiest link is the first one, or one of those at the last two lanes of that loop, which have what
goes back to all lanes up to there, and what lanes further in there are passed. All that passes a link of a tree passes
those above it, so that one of the root's two links has most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from einmap.arch.component import Topology
from einmap.arrays import Bools, Floats
from einmap.mapper.cost_bounds.networks.lanes import NetworkLanes, after, before
from einmap.mapper.cost_bounds.networks.tree_kernels import links_to_groups

FIRST, SECOND_LAST, LAST = range(3)
"""Links round a torus or a ring that may be the busiest: next to which lane of the outermost loop they begin."""


class _LoopByLoop(NetworkLanes):
    """Values go along one loop after another."""

    def steps(self, shared: Bools) -> Floats:
        """Steps to all lanes of each loop together, for one value each."""
        raise NotImplementedError

    def walked(self, shared: Bools) -> Bools:
        """The loops along which values are passed on, `shared` being those whose lanes share them."""
        del shared
        return self.used

    def hops(self, *, output: bool) -> Floats:
        """Hops of each value that fills the child, and of an output's way back."""
        shared = self.shared(output=output)
        steps = np.where(self.walked(shared), self.steps(shared), 0.0) / self.n
        one_way: Floats = (steps / after(np.where(shared, self.n, 1.0))).sum(axis=1)
        if not output:
            return one_way
        shared = self.shared(output=False)
        alone = self.walked(shared) & ~self.merged
        return one_way + np.where(alone, self.steps(shared) / self.n, 0.0).sum(axis=1) / self.share

    def hops_saved(self) -> Floats:
        """Hops that each value saves that starts without a result."""
        shared = self.shared(output=False)
        saved = np.where(self.walked(shared) & ~self.none, self.steps(shared) / self.n, 0.0)
        hops: Floats = saved.sum(axis=1)
        return hops

    def route(self, *, output: bool) -> Floats:
        """Steps of the longest route: of an output the longer one of both ways."""
        ways = [self._route_to_lanes(self.shared(output=way)) for way in {False, output}]
        longest: Floats = np.max(ways, axis=0)
        return longest

    def _route_to_lanes(self, shared: Bools) -> Floats:
        steps = np.where(self.walked(shared), self.route_along(shared), 0.0)
        longest: Floats = steps.sum(axis=1)
        return longest

    def route_along(self, shared: Bools) -> Floats:
        """Steps to the farthest lane of each loop, and the step into its first one."""
        raise NotImplementedError

    def sent(self, number: int, shared: Bools) -> Floats:
        """For how many lanes of each loop values pass a link."""
        del number
        sent: Floats = np.where(shared, np.minimum(self.n - 1, 1), self.n - 1)
        return sent

    def only_at_first(self, number: int, without: Bools) -> Bools:
        """Loops whose lanes pass nothing where a link is, if of the loops `without` the first lane alone takes part."""
        del number
        return np.zeros_like(without)

    def load(self, number: int, chosen: Bools, *, output: bool, fills: bool = True) -> Floats:
        """Share of the values that pass a link, see `NetworkLanes`."""
        shared = self.shared(output=output)
        sent = np.where(self.walked(shared), self.sent(number, shared), 0.0) / self.n
        inner = after(np.where(shared, self.n, 1.0))
        passing = sent / (inner * before(self.n) * self.above[:, None])
        if output and fills:
            shared = self.shared(output=False)
            refilled = self.walked(shared) & ~self.merged & ~self.only_at_first(number, self.merged)
            apart = before(np.where(self.merged, 1.0, self.n)) * self.above_apart[:, None] * self.share[:, None]
            passing = passing + np.where(refilled, self.sent(number, shared) / self.n / apart, 0.0)
        total: Floats = np.where(chosen, passing, 0.0).sum(axis=1)
        return total

    def load_saved(self, number: int, chosen: Bools) -> Floats:
        """Share of the tensor's values that start without a result and do not pass there."""
        shared = self.shared(output=False)
        starting = self.walked(shared) & ~self.none & ~self.only_at_first(number, self.none)
        indexed = np.where(self.none, 1.0, self.n)
        saved = self.sent(number, shared) / (indexed * before(indexed) * self.above_indexed[:, None])
        total: Floats = np.where(chosen & starting, saved, 0.0).sum(axis=1)
        return np.where(self.above_turns, 0.0, total)


class _Mesh(_LoopByLoop):
    def steps(self, shared: Bools) -> Floats:
        steps: Floats = self.strides * (self.n - 1) * np.where(shared, 1.0, self.n / 2)
        return steps

    def route_along(self, shared: Bools) -> Floats:
        del shared
        return self.n * self.strides


class _AllToAll(_LoopByLoop):
    def steps(self, shared: Bools) -> Floats:
        del shared
        return self.n - 1

    def route_along(self, shared: Bools) -> Floats:
        del shared
        return np.ones_like(self.n)


class _Systolic(_Mesh):
    """Values are handed on along fanouts whose lanes share them, or along the last one that they are spread over."""

    def walked(self, shared: Bools) -> Bools:
        used = self.used
        last = used & (np.cumsum(used, axis=1) == used.sum(axis=1, keepdims=True))
        sharing = used & shared
        handed = np.where(sharing.any(axis=1, keepdims=True), sharing, last)
        along = np.zeros_like(used)
        for dimension in dict.fromkeys(self.dimensions):
            here = np.array([d == dimension for d in self.dimensions])
            along[:, here] = handed[:, here].any(axis=1, keepdims=True)
        walked: Bools = along & used
        return walked


class _Torus(_LoopByLoop):
    """Each fanout is a ring."""

    @property
    def _steps_between(self) -> Floats:
        """Steps forward from one lane of a loop to the next."""
        return self.strides

    @property
    def _sizes(self) -> Floats:
        """Places of the ring that a loop goes along."""
        return self.fanouts

    def _rings(self) -> list[list[int]]:
        """The loops of each ring."""
        dimensions = dict.fromkeys(self.dimensions)
        return [[k for k, d in enumerate(self.dimensions) if d == dimension] for dimension in dimensions]

    def _outermost(self) -> Bools:
        """The outermost loop of each ring, which alone may go backward."""
        outermost = np.zeros_like(self.used)
        for ring in self._rings():
            used = self.used[:, ring]
            outermost[:, ring] = used & (np.cumsum(used, axis=1) == 1)
        return outermost

    def steps(self, shared: Bools) -> Floats:
        return np.where(shared, self._shorter(1) * (self.n - 1), sum(self._to_each()))

    def _shorter(self, lane: int) -> Floats:
        """Steps of the shorter way round the ring to a lane of each loop."""
        places = lane * self._steps_between
        return np.minimum(places, self._sizes - places)

    def _to_each(self) -> Iterator[Floats]:
        """Steps to each lane that a loop has, one after the other; 0 to others, and to its first lane."""
        for lane in range(int(self.n.max(initial=1.0))):
            yield np.where(lane < self.n, self._shorter(lane), 0.0)

    def route_along(self, shared: Bools) -> Floats:
        farthest = np.where(shared, self._shorter(1) * (self.n - 1), np.max(list(self._to_each()), axis=0))
        steps: Floats = farthest + self.strides
        return steps

    def sent(self, number: int, shared: Bools) -> Floats:
        # lane by lane of the outermost loop the steps forward are up to half of the ring, then it goes backward
        forward = np.minimum(np.floor(self._sizes / (2 * self._steps_between)), self.n - 1)
        lane = self._lane(number)
        sent = np.where(shared, np.where(lane < self.n - 1, 1.0, 0.0), np.abs(forward - lane))
        return np.where(self._outermost(), sent, super().sent(number, shared))

    def _lane(self, number: int) -> Floats:
        """The lane of each loop, if it is the outermost one of its ring, at which a link begins."""
        if number == FIRST:
            return np.zeros_like(self.n)
        lane: Floats = np.maximum(self.n - (1 if number == LAST else 2), 0.0)
        return lane

    def only_at_first(self, number: int, without: Bools) -> Bools:
        elsewhere = without & self._outermost() & (self._lane(number) > 0)
        inside = np.zeros_like(without)
        for ring in self._rings():
            inside[:, ring] = elsewhere[:, ring].any(axis=1, keepdims=True)
        return inside


class _Ring(_Torus):
    """All lanes are one ring."""

    @property
    def _steps_between(self) -> Floats:
        return self.strides * self.apart

    @property
    def _sizes(self) -> Floats:
        return np.full_like(self.fanouts, self.places)

    def _rings(self) -> list[list[int]]:
        return [list(range(len(self.dimensions)))]


class _Bus(NetworkLanes):
    """One medium for all lanes: one step for each group that shares a copy; an output's values go one by one."""

    def hops(self, *, output: bool) -> Floats:
        alone: Floats = np.where(self.shared(output=output), self.n, 1.0).prod(axis=1)
        return 1 + 1 / self.share if output else 1 / alone

    def hops_saved(self) -> Floats:
        return np.ones(len(self.n))

    def route(self, *, output: bool) -> Floats:
        del output
        return np.ones(len(self.n))

    def load(self, number: int, chosen: Bools, *, output: bool, fills: bool = True) -> Floats:
        del number, chosen
        if not output:
            return self.hops(output=False) / self.above
        # of instances that share one sum, the first one is refilled
        return 1 / self.above + fills / (self.share * self.above_apart)

    def load_saved(self, number: int, chosen: Bools) -> Floats:
        del number, chosen
        return np.where(self.above_turns, 0.0, 1 / self.above_indexed)


class _Tree(NetworkLanes):
    """Lanes are the leaves of a binary tree, in the order of the loops if all lanes of each fanout are used."""

    @property
    def _depth(self) -> int:
        return (self.places - 1).bit_length()

    def hops(self, *, output: bool) -> Floats:
        links, _ = self._links(self.n, self.shared(output=output))
        up = links / self.n.prod(axis=1)
        return up + self._depth / self.share if output else up

    def hops_saved(self) -> Floats:
        return np.full(len(self.n), float(self._depth))

    def route(self, *, output: bool) -> Floats:
        del output
        return np.full(len(self.n), float(self._depth))

    def load(self, number: int, chosen: Bools, *, output: bool, fills: bool = True) -> Floats:
        del chosen
        _, behind = self._links(self.n, self.shared(output=output))
        load: Floats = behind[:, number] / (self.n.prod(axis=1) * self.above)
        if not (output and fills):
            return load
        # of lanes that share one sum the first one is refilled
        refilled = np.where(self.merged, 1.0, self.n)
        return load + self._each_behind(number, refilled) / (refilled.prod(axis=1) * self.share * self.above_apart)

    def load_saved(self, number: int, chosen: Bools) -> Floats:
        del chosen
        indexed = np.where(self.none, 1.0, self.n)
        saved = self._each_behind(number, indexed) / (indexed.prod(axis=1) * self.above_indexed)
        return np.where(self.above_turns, 0.0, saved)

    def _each_behind(self, number: int, n: Floats) -> Floats:
        """Lanes behind one of the root's links, where each loop has so many."""
        behind: Floats = self._links(n, np.zeros_like(self.merged))[1][:, number]
        return behind

    def _links(self, n: Floats, shared: Bools) -> tuple[Floats, Floats]:
        """Links to each group of lanes that share values, of all groups together; groups behind each of the root's."""
        used = (n > 1).any(axis=0)
        counts, steps = (np.ascontiguousarray(values[:, used], dtype=np.int64) for values in (n, self._steps))
        links, behind = links_to_groups(counts, steps, np.ascontiguousarray(shared[:, used]), self._depth)
        return links, behind

    @property
    def _steps(self) -> Floats:
        """Leaves from one lane of a loop to the next."""
        steps: Floats = self.strides * self.apart
        return steps


LANES: Mapping[Topology, type[NetworkLanes]] = {
    "mesh": _Mesh,
    "all_to_all": _AllToAll,
    "systolic": _Systolic,
    "torus": _Torus,
    "ring": _Ring,
    "tree": _Tree,
    "bus": _Bus,
}
"""Counting rules of networks, by topology."""
