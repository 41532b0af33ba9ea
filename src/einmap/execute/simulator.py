"""The simulator: walks the LoopTree in time, opens and closes visits, moves tiles between buffers.

Storage nodes are filled when the first Einsum that needs them starts. All lanes of a visit act together: the lanes
of a group that is merged use one copy; the others take turns, so that a later lane finds what an earlier one wrote.
Partial results move with their tile: a fill takes them out of the parent, a write-back reduces them into it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import product

from einmap.arch.component import Memory
from einmap.execute.copying import CopyLeaf
from einmap.execute.exchanges import Exchanges, Gathering, is_gathered, move, reduce_into
from einmap.execute.leaf import Leaf, innermost
from einmap.execute.networks.units import is_spread
from einmap.execute.recorder import Recorder, Values
from einmap.execute.results.occupancy import Life, LiveBuffer, Occupancy
from einmap.execute.stages import PipelineRun
from einmap.execute.tiles.buffers import Heap, Tile, volume
from einmap.execute.tiles.padding import Padding
from einmap.execute.tiles.sliding import Windows
from einmap.execute.tiles.visits import Visit, Visits
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box, box_of, hull, stored_box
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Instance, Interval, Route, ranks_of
from einmap.schedule.schedule import Schedule


class Simulator:
    """Runs a schedule once. `store`: the whole tensors outside of all buffers; `padding`: see padding.py."""

    def __init__(
        self,
        schedule: Schedule,
        store: Mapping[str, Tile],
        heap: Heap,
        recorder: Recorder,
        occupancy: Occupancy,
        padding: Mapping[str, Padding] | None = None,
    ) -> None:
        self.schedule = schedule
        self.mapping = schedule.mapping
        self.workload = schedule.workload
        self.routes = schedule.routes
        self.places = schedule.places
        self.store = store
        self.heap = heap
        self.recorder = recorder
        self.occupancy = occupancy
        self.padding = padding or {}
        self.clock: dict[Address, int] = {}
        self.visits = Visits()
        self.runs: dict[Address, int] = {}
        self.leaves: dict[str, Leaf | CopyLeaf] = {}
        for name, route in schedule.routes.items():
            self.leaves[name] = CopyLeaf(route, self.visits) if route.einsum.is_copy else Leaf(route)
        for tensor in self.padding.keys() & store.keys():
            self.padding[tensor].fill(store[tensor])
        self.windows = Windows(schedule.sliding, heap)
        self.gathering = Gathering(self.visits, heap, ranks_of(schedule.workload))
        self.exchanges = Exchanges(schedule.places, self.visits, recorder, self.gathering)
        if recorder.zeros is not None:
            recorder.zeros.clock = self.clock

    # the walk

    def run(self) -> None:
        """Execute the whole tree."""
        for key, place in self.places.items():
            if place.hold.persistent:
                self._reserve_for_good(key, place)
        self.walk(self.mapping.nodes, (), 0)

    def walk(self, nodes: tuple[tree.Node, ...], prefix: Address, index: int) -> None:
        """Execute a list of nodes from one of them on; one that ends in a Pipeline turn by turn."""
        if index == 0 and nodes and isinstance(nodes[-1], tree.Pipeline):
            address = (*prefix, len(nodes) - 1)
            self.runs[address] = self.runs.get(address, -1) + 1
            PipelineRun(self, self.schedule.pipelines[address], nodes, self.runs[address]).run()
            return
        for i in range(index, len(nodes)):
            node, address = nodes[i], (*prefix, i)
            match node:
                case tree.Temporal():
                    self._loop(nodes, prefix, i)
                    return
                case tree.Storage():
                    self._storage(nodes, prefix, i, node)
                    return
                case tree.Split(branches=branches):
                    for b, inner in enumerate(branches):
                        self._enter((*address, b))
                        self.walk(inner, (*address, b), 0)
                        self._leave((*address, b))
                    return
                case tree.Compute(einsum=einsum):
                    self._leaf(self.routes[einsum])
                case _:
                    continue

    def _loop(self, nodes: tuple[tree.Node, ...], prefix: Address, i: int) -> None:
        address = (*prefix, i)
        routes = self.schedule.below(address)
        position = next(t.position for t in routes[0].turns if t.address == address)
        if len(routes) == 1 and position > routes[0].leaf_start:
            self._leaf(routes[0])
            return
        sliding = [
            key for key in self.windows.along(address) if self.schedule.buffer_of(key) not in self.schedule.lasting
        ]
        for key in sliding:
            self.occupancy.begin(key, self._space(key, self._largest(key, address)), Life(*key, address, address))
        for iteration in range(max(r.iterations[address] for r in routes)):
            self.clock[address] = iteration
            if any(r.intervals(self.clock, (), -1, position + 1) is not None for r in routes):
                self.walk(nodes, prefix, i + 1)
            for key in self.schedule.ending.get(address, ()):
                self._forget(key, address)
        for key in sliding:
            self.occupancy.end(key)
        del self.clock[address]

    def _forget(self, key: NodeTensor, loop: Address) -> None:
        """Steps of a state that no later iteration of a loop over time reads leave its buffer, but for the last one."""
        place, rank = self.places[key], self._time_of(key)
        following = {**self.clock, loop: self.clock[loop] + 1}
        for lane, tile in self.visits.open[key].tiles.items():
            box, then = (self._box_in(place, loop, clock, lane) for clock in (self.clock, following))
            if box is not None:
                low, high = box[rank]
                end = then[rank][0] if then else high - 1
                move(tile, self.store[key[1]], tuple((low, end) if i == rank else x for i, x in enumerate(box)))

    def _box_in(self, place: Place, loop: Address, clock: Mapping[Address, int], lane: Instance) -> Box | None:
        """Indices that one iteration of a loop uses of the tile that a node above it has in an instance."""
        boxes = []
        for route in place.users:
            turn = next((t for t in route.turns if t.address == loop), None)
            if turn and clock[loop] < route.iterations[loop]:
                intervals = route.intervals(clock, lane, place.hold.level, turn.position + 1)
                boxes += [] if intervals is None else [box_of(route, place.hold.tensor, intervals)]
        return hull(boxes) if boxes else None

    def _time_of(self, key: NodeTensor) -> int:
        """The position of the rank of time of a state."""
        return self.places[key].users[0].ranks[key[1]].index(self.workload.states[key[1]].states[key[1]])

    def _largest(self, key: NodeTensor, loop: Address) -> dict[Instance, int]:
        """Values of the largest tile that each instance holds while the loop runs."""
        place, sizes = self.places[key], dict[Instance, int]()
        for iteration in range(place.users[0].iterations[loop]):
            for lane, box in self._boxes(place, {**self.clock, loop: iteration}).items():
                sizes[lane] = max(sizes.get(lane, 0), volume(box))
        return sizes

    def _storage(self, nodes: tuple[tree.Node, ...], prefix: Address, i: int, node: tree.Storage) -> None:
        address = (*prefix, i)
        opened = [(address, tensor) for tensor in node.tensors if (address, tensor) in self.places]
        for key in opened:
            self.open(key)
        self._enter(address)
        self.walk(nodes, prefix, i + 1)
        for key in reversed(opened):
            self.close(key)
        self._leave(address)

    def _leaf(self, route: Route) -> None:
        name = route.einsum.name
        fullest = route.lanes(route.unit_level)[0]
        if route.intervals(self.clock, fullest, route.unit_level, route.leaf_start) is None:
            return
        self.recorder.begin_visit()
        if not route.einsum.is_copy:
            for tensor, holds in route.holds.items():
                for hold in holds:
                    if isinstance(hold.component, Memory):
                        self.exchanges.ensure(route, tensor, hold)
        self.occupancy.look(self.recorder.step, name, self.schedule.aliases)
        inner = () if route.einsum.is_copy else tuple(route.holds)
        tiles = {tensor: self.visits.of(innermost(route, tensor).address, tensor).tiles for tensor in inner}
        rows = {
            tensor: self._rows(route, tensor)
            for tensor in inner
            if len(tiles[tensor]) and self._from_table(route, tensor)
        }
        self.leaves[name].run(self.clock, {**tiles, **rows}, self.heap, self.recorder)
        for fetched in rows.values():
            for tile in fetched.values():
                tile.free()

    def _from_table(self, route: Route, tensor: str) -> bool:
        """Whether an Einsum looks up the rows of a tensor in its outermost holder as it computes."""
        return is_gathered(route, tensor, innermost(route, tensor).address)

    def _rows(self, route: Route, tensor: str) -> dict[Instance, Tile]:
        """The rows that a visit of the inner part of an Einsum looks up."""
        leaf = self.leaves[route.einsum.name]
        values = {v: leaf.table(v, self.clock) for v in route.einsum.rank_variables}
        intervals = {v: (int(x[x >= 0].min()), int(x.max() - x[x >= 0].min()) + 1) for v, x in values.items()}
        box = box_of(route, tensor, intervals)
        return self.gathering.rows(route, tensor, {lane: [box] for lane in route.lanes(route.holds[tensor][0].level)})

    # space

    def _enter(self, address: Address) -> None:
        for key in self.schedule.begins.get(address, ()):
            visit = self.visits.open.get(key)
            if visit is not None and self.schedule.buffer_of(key) not in self.schedule.lasting:
                self.occupancy.begin(self.schedule.buffer_of(key), self.space_of(key, visit), self._life(key))

    def _leave(self, address: Address) -> None:
        for key in self.schedule.ends.get(address, ()):
            if self.schedule.buffer_of(key) not in self.schedule.lasting and self.schedule.is_last(key):
                self.occupancy.end(self.schedule.buffer_of(key))

    def space_of(self, key: NodeTensor, visit: Visit) -> LiveBuffer:
        """The space that a visit of a node takes."""
        hold = self.places[key].hold
        if is_spread(hold):
            route = self.places[key].users[0]
            return self._space(
                key,
                {
                    (*lane, *unit): n
                    for lane, tile in visit.tiles.items()
                    for unit, n in self.exchanges.units.held(route, hold, tile.shape)
                },
            )
        boxes = {lane: tile.box for lane, tile in visit.tiles.items()}
        if any(key in keys for keys in self.schedule.ending.values()):
            (steps,), at = self.workload.steps_held(key[1]).values(), self._time_of(key)
            boxes = {
                lane: tuple((a, min(b, a + steps)) if i == at else (a, b) for i, (a, b) in enumerate(box))
                for lane, box in boxes.items()
            }
        return self._space(key, {lane: volume(box) for lane, box in boxes.items()})

    def _life(self, key: NodeTensor) -> Life:
        nodes = self.schedule.nodes_of(key)
        first, last = nodes[0], nodes[-1]
        return Life(
            *first,
            self.schedule.edge(self.places[first], first=True),
            self.schedule.edge(self.places[last], first=False),
        )

    def _space(self, key: NodeTensor, values: dict[Instance, int], factor: int = 1) -> LiveBuffer:
        place = self.places[key]
        users = tuple(r.einsum.name for r in place.users)
        return LiveBuffer(place.hold.component.name, key[1], values, users, factor)

    def _reserve_for_good(self, key: NodeTensor, place: Place) -> None:
        """Persistent storage: the largest tile, for every instance of the workload, at all times."""
        route = place.users[0]
        lane = route.lanes(place.hold.level)[0]
        held: list[Box] = []
        for clock in _early(place):
            boxes = [b for r in place.users if (b := self._box(r, place, clock, lane)) is not None]
            held += [hull(boxes)] if boxes else []
        size = max(map(volume, held), default=0)
        factor = self.workload.n_instances * max(r.einsum.n_instances for r in place.users)
        values: dict[Instance, int] = dict.fromkeys(route.lanes(place.hold.level), size)
        if is_spread(place.hold):
            largest = max((tuple(high - low for low, high in box) for box in held), key=math.prod, default=())
            values = dict(self.exchanges.units.held(route, place.hold, largest))
        space = self._space(key, values, factor)
        self.occupancy.begin(self.schedule.buffer_of(key), space, Life(*self.schedule.nodes_of(key)[0], (), ()))

    # visits

    def _box(self, route: Route, place: Place, clock: Mapping[Address, int], lane: Instance) -> Box | None:
        hold = place.holds[route.einsum.name]
        intervals = route.intervals(clock, lane, hold.level, hold.position)
        if intervals is None:
            return None
        return (stored_box if place.is_backing() else box_of)(route, place.hold.tensor, intervals)

    def _boxes(self, place: Place, clock: Mapping[Address, int]) -> dict[Instance, Box]:
        """The tile of each instance at the time `clock`; an instance that has none is left out."""
        boxes = {}
        for lane in place.users[0].lanes(place.hold.level):
            users_boxes = [b for r in place.users if (b := self._box(r, place, clock, lane)) is not None]
            if users_boxes:
                boxes[lane] = hull(users_boxes)
        return boxes

    def open(self, key: NodeTensor) -> None:
        """Begin the visit of a storage node at the time of the clock."""
        place = self.places[key]
        boxes_of: dict[str, dict[Instance, Box]] = {}
        tiles: dict[Instance, Tile] = {}
        for lane in place.users[0].lanes(place.hold.level):
            boxes = []
            for route in place.users:
                box = self._box(route, place, self.clock, lane)
                if box is not None:
                    boxes.append(box)
                    boxes_of.setdefault(route.einsum.name, {})[lane] = box
            if boxes:
                tiles[lane] = Tile(self.heap, hull(boxes))
        self.visits.open[key] = Visit(tiles, boxes_of)
        self.windows.take_over(key, self.visits.open[key])
        if self.recorder.zeros is not None:
            for tile in tiles.values():
                self.recorder.zeros.opened(place.users[0], place.hold, tile.box)
        if place.hold.component.name in self.recorder.traced:
            self.recorder.visit(*key, self.visits.open[key], self._values(place, boxes_of))
        if place.is_backing():
            self._load(place, self.visits.open[key])

    def _values(self, place: Place, boxes_of: Mapping[str, Mapping[Instance, Box]]) -> Values:
        """Values of rank variables that each Einsum uses at a node, by instance."""
        values: dict[str, dict[Instance, dict[str, Interval]]] = {}
        for name, boxes in boxes_of.items():
            hold = place.holds[name]
            for lane in boxes:
                intervals = self.routes[name].intervals(self.clock, lane, hold.level, hold.position)
                if intervals is not None:
                    values.setdefault(name, {})[lane] = intervals
        return values

    def _load(self, place: Place, visit: Visit) -> None:
        """Put the tensor's data into its outermost holder; nothing is counted."""
        tensor = place.hold.tensor
        if tensor in self.workload.intermediates and tensor not in self.schedule.several:
            for tile in visit.tiles.values() if tensor in self.padding else ():
                self.padding[tensor].fill(tile)
            return
        whole = self.store[tensor]
        takes = place.producer is not None
        for tile in visit.tiles.values():
            tile.values(tile.box)[...] = whole.values(tile.box)
            tile.present(tile.box)[...] = whole.present(tile.box)
            tile.live(tile.box)[...] = whole.live(tile.box)
            if takes:
                tile.added(tile.box)[...] = whole.added(tile.box)
                whole.present(tile.box)[...] = 0
                whole.added(tile.box)[...] = 0

    def close(self, key: NodeTensor) -> None:
        """End the visit of a storage node: results go outward."""
        place, visit = self.places[key], self.visits.open.pop(key)
        producer = place.producer
        loop = self.windows.loops.get(key)
        if loop is not None:
            self.windows.leave(key, visit, self._boxes(place, {**self.clock, loop: self.clock[loop] + 1}))
        if producer is not None:
            if place.is_backing():
                for tile in visit.tiles.values():
                    reduce_into(self.store[key[1]], tile, producer)
            elif not producer.einsum.is_copy:
                self.exchanges.write_back(place, visit, producer)
        for tile in visit.tiles.values():
            tile.free()


def _early(place: Place) -> Iterator[dict[Address, int]]:
    """The first two iterations of every temporal loop above a storage node: the largest tile is among them."""
    loops = {
        t.address: r.iterations[t.address]
        for r in place.users
        for t in r.turns
        if t.level is None and t.position < place.holds[r.einsum.name].position
    }
    for chosen in product(*(range(min(n, 2)) for n in loops.values())):
        yield dict(zip(loops, chosen, strict=True))
