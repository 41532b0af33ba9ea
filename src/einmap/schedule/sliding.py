"""Which buffers keep, from one iteration of a loop to the next, what both need, and along which loop."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.einsum.workload import Workload
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Route, Turn


def sliding_loops(
    mapping: LoopTree,
    workload: Workload,
    routes: Mapping[str, Route],
    places: Mapping[NodeTensor, Place],
    everywhere: bool,
) -> dict[NodeTensor, Address]:
    """The loop that each sliding buffer slides along. `everywhere`: nodes that do not say slide where they can."""
    loops: dict[NodeTensor, Address] = {}
    for key, place in places.items():
        node = mapping.at(key[0])
        assert isinstance(node, tree.Storage)
        if key[1] in workload.states and place.is_backing():
            step = _between_steps(workload, place)
            loops |= {} if step is None else {key: step}
            continue
        asked = everywhere if node.sliding_window is None else node.sliding_window
        copied = any(r.einsum.is_copy and key[1] in r.holds and _passes(r, key) for r in routes.values())
        if not asked or copied:
            continue
        if place.is_backing():
            halo = _halo(workload, place)
            loops |= {} if halo is None else {key: halo}
            continue
        turns = [_innermost(user, place) for user in place.users]
        turn = turns[0]
        if turn is None or not all(_slides(u, key[1], t) for u, t in zip(place.users, turns, strict=True)):
            continue
        if place.producer is not None:
            ours = is_alike(place) and not _split_between(mapping, place, turn) and not _hands_on(place)
        else:
            ours = _is_settled(workload, routes, key[1], turn)
        if ours:
            loops[key] = turn.address
    return loops


def _between_steps(workload: Workload, place: Place) -> Address | None:
    """The loop over the time of a recurrence, if a step of the state is handed to the next one in this buffer."""
    variable = workload.states[place.hold.tensor].variable
    turns = {turn.address for route in place.users if (turn := _innermost(route, place)) and turn.variable == variable}
    return turns.pop() if len(turns) == 1 else None


def _halo(workload: Workload, place: Place) -> Address | None:
    """The loop along which the outermost buffer of an intermediate keeps what its readers need again."""
    tensor = place.hold.tensor
    turns = [(route, _innermost(route, place)) for route in place.users]
    writes = reads = False
    for route, turn in turns:
        if turn is None:
            return None
        relevance = _relevance(route, tensor, turn)
        writes |= route is place.producer and relevance is Relevance.FULL
        reads |= route is not place.producer and relevance is Relevance.PARTIAL
    loops = {turn.address for _, turn in turns if turn is not None}
    keeps = tensor in workload.intermediates and len(loops) == 1 and writes and reads
    return loops.pop() if keeps else None


def _passes(route: Route, key: NodeTensor) -> bool:
    return any(hold.address == key[0] for hold in route.holds[key[1]])


def _slides(route: Route, tensor: str, turn: Turn | None) -> bool:
    return turn is not None and _relevance(route, tensor, turn) is Relevance.PARTIAL


def _relevance(route: Route, tensor: str, turn: Turn) -> Relevance:
    return route.einsum.by_tensor[tensor].relevance(turn.variable)


def _innermost(route: Route, place: Place) -> Turn | None:
    hold = place.holds[route.einsum.name]
    timed = [t for t in route.turns if t.level is None and t.position < hold.position]
    return next((t for t in reversed(timed) if route.iterations[t.address] > 1), None)


def is_alike(place: Place) -> bool:
    """Whether all users have the same tile in every visit: the same expressions of loops that move alike."""
    return len({_movement(route, place) for route in place.users}) == 1


def _movement(route: Route, place: Place) -> object:
    hold = place.holds[route.einsum.name]
    first = dict(route.einsum.first_values)
    moves = []
    for index in route.indices[hold.tensor]:
        terms = []
        for v, a in index.terms:
            steps = tuple(
                (t.address, a * t.shape, a * t.first)
                for t in route.turns
                if t.variable == v and route.iterations[t.address] > 1 and _is_above(t, hold.position, hold.level)
            )
            terms.append((steps, a, route.einsum.extents[v]))
        shift = index.constant + sum(a * first.get(v, 0) for v, a in index.terms)
        moves.append((shift, tuple(sorted(terms))))
    return tuple(moves)


def _is_above(turn: Turn, position: int, level: int) -> bool:
    return turn.position < position if turn.level is None else turn.level <= level


def _split_between(mapping: LoopTree, place: Place, turn: Turn) -> bool:
    name = place.users[0].einsum.name
    placed = mapping.path_of[name][turn.position : place.holds[name].position]
    return any(isinstance(p.node, tree.Split) for p in placed)


def _hands_on(place: Place) -> bool:
    """Whether lanes take turns on elements of an output: each then has to write back for the next one."""
    route = place.producer
    assert route is not None
    hold = place.holds[route.einsum.name]
    memories = [h for h in route.holds[hold.tensor] if isinstance(h.component, Memory)]
    outer = memories[memories.index(hold) - 1].level
    for turn in route.lane_turns:
        assert turn.level is not None
        spreads = outer < turn.level <= hold.level and not route.merges(turn, hold.tensor)
        if spreads and _relevance(route, hold.tensor, turn) is not Relevance.FULL:
            return True
    return False


def _is_settled(workload: Workload, routes: Mapping[str, Route], tensor: str, turn: Turn) -> bool:
    """Whether nobody writes, in a later iteration of the loop, what has been fetched of the tensor."""
    producer = routes.get(workload.producers.get(tensor, ""))
    producer_turn = None if producer is None else next((t for t in producer.turns if t.address == turn.address), None)
    if producer is None or producer_turn is None:
        return True
    forward = all(a > 0 for index in producer.indices[tensor] for _, a in index.terms)
    return not producer.einsum.is_copy and forward and _relevance(producer, tensor, producer_turn) is Relevance.FULL
