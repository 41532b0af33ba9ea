"""Rewrites of storage nodes: where in the LoopTree a memory holds a tensor, and whether it does."""

from __future__ import annotations

from dataclasses import replace

from einmap.einsum.workload import Workload
from einmap.errors import At, MappingError, did_you_mean
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.met_loops import loops_met
from einmap.mapping.nodes import Address, Compute, Split, Storage, Temporal, Toll, format_address
from einmap.mapping.nodes import Spatial as SpatialLoop
from einmap.mapping.pretty import describe
from einmap.mapping.rewrite.editing import (
    beside,
    einsums_in,
    paths_through,
    position_in,
    with_storage,
    without_tensors,
)
from einmap.mapping.rewrite.places import Held, Ref, at, find_loop, find_node, find_storage, refuse, tensors_at
from einmap.mapping.rewrite.values import advances, check_copies, check_exchange, holders, iterates, met_at
from einmap.mapping.validate import check_tree


def hoist(mapping: Mapping, workload: Workload, storage: Ref, *, above: Ref | None = None) -> Mapping:
    """Move a storage node up, to stand directly above a loop: a larger tile, held longer, fetched less often.

    `hoist A@GLB`:

        [DRAM holds A, B, Z]
        for n by 4
          for m by 1
            [GLB holds A, B]
            for k by 1
              for n by 1
                compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for n by 4
          [GLB holds A]
          for m by 1
            [GLB holds B]
            for k by 1
              for n by 1
                compute Z on MAC

    `above`: the loop, by default the nearest one above. Tensors that are named alone leave their node; next to a
    node of the same memory they join it. Out of a branch of a split only tensors move that no other branch uses.
    Raises MappingError when the way is barred by another holder of the tensor or by a split.
    """
    check_tree(mapping, workload, at)
    held = find_storage(mapping, storage)
    path = next(iter(paths_through(mapping, held.address).values()))
    position = position_in(path, held.address)
    target = _loop_above(mapping, path[:position], held, above)
    for placed in path[target:position]:
        _pass(workload, held, placed, path[position].address)
    _check_alone(mapping, workload, held, path[target:position])
    for tensor in held.tensors:
        check_copies(mapping, workload, tensor, path[target].address)
    alone = replace(held.node, tensors=held.tensors)
    return with_storage(without_tensors(mapping, held.address, held.tensors), path[target].address, alone)


def _loop_above(mapping: Mapping, path: tuple[PlacedNode, ...], held: Held, above: Ref | None) -> int:
    """The position on the path of the loop to stand above."""
    loops = [i for i, placed in enumerate(path) if isinstance(placed.node, Temporal | SpatialLoop)]
    if above is None:
        if not loops:
            raise refuse(f"no loop stands above {describe(held.node)}", held.address)
        return loops[-1]
    loop = find_loop(mapping, above)
    for i in loops:
        if path[i].address == loop.address:
            return i
    text = f"{format_address(loop.address)} does not stand above {describe(held.node)}"
    raise refuse(text, held.address, "`sink` moves a storage node down")


def _passes_loops(mapping: Mapping, workload: Workload, nodes: tuple[PlacedNode, ...]) -> bool:
    loops = [placed.address for placed in nodes if isinstance(placed.node, Temporal)]
    return any(iterates(met_at(mapping, workload, address).values()) for address in loops)


def _pass(workload: Workload, held: Held, placed: PlacedNode, toward: Address) -> None:
    """Whether the tensors may move past a node; `toward` is on the branch of a split that they enter or leave."""
    node = placed.node
    match node:
        case Storage() | Toll():
            shared = [t for t in held.tensors if t in node.tensors]
            if shared:
                text = f"{shared[0]!r} in {held.node.component} would pass {describe(node)}"
                raise refuse(text, placed.address, "the holders of one tensor keep their order")
        case Split(branches=branches):
            entered = toward[len(placed.address)]
            for number, branch in enumerate(branches):
                _pass_branch(workload, held, placed.address, einsums_in(branch), is_entered=number == entered)
        case _:
            pass


def _pass_branch(workload: Workload, held: Held, split: Address, einsums: tuple[str, ...], *, is_entered: bool) -> None:
    for tensor in held.tensors:
        users = [e for e in einsums if tensor in workload.by_name[e].tensors]
        if users and not is_entered:
            text = f"{tensor!r} would pass a split, and the branch of Einsum {users[0]!r} uses it too"
            raise refuse(text, split, "across a split a tensor of one branch only may move")
        if is_entered and not users:
            raise refuse(f"no Einsum of that branch uses {tensor!r}", split)


def sink(mapping: Mapping, workload: Workload, storage: Ref, *, below: Ref | None = None) -> Mapping:
    """Move a storage node down, to stand directly below a loop: a smaller tile, held for a shorter time.

    `sink A@GLB below m`:

        [DRAM holds A, B, Z]
        [GLB holds A, B]
        for m by 1
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        [GLB holds B]
        for m by 1
          [GLB holds A]
          for n by 1
            for k by 1
              compute Z on MAC

    Without `below`, each tensor moves as far as that saves space at equal traffic: past the loops that follow its
    node directly, as long as they are temporal and each iteration moves on to other elements.

    `sink nodes[1]`:

        [DRAM holds A, B, Z]
        [GLB holds A, Z]
        for m by 1
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A]
          for n by 1
            [GLB holds Z]
            for k by 1
              compute Z on MAC

    Raises MappingError when the way is barred (as for `hoist`), when an intermediate would be backed below a loop
    that does not index it or whose tiles overlap, and, without `below`, when there is nothing to save.
    """
    check_tree(mapping, workload, at)
    held = find_storage(mapping, storage)
    if below is not None:
        return _sunk(mapping, workload, held, find_loop(mapping, below).address)
    targets = {t: place_that_saves(mapping, workload, held.address, t) for t in held.tensors}
    moves = sorted(((to, t) for t, to in targets.items() if to is not None), key=lambda move: move[0], reverse=True)
    if not moves:
        text = f"{', '.join(held.tensors)} in {held.node.component} saves no space at equal traffic further down"
        raise refuse(text, held.address, "`sink ... below LOOP` moves it all the same")
    # the deepest first: what stands above keeps its address
    for target, tensor in moves:
        mapping = _sunk(mapping, workload, Held(held.address, held.node, (tensor,)), target)
    return mapping


def _sunk(mapping: Mapping, workload: Workload, held: Held, target: Address) -> Mapping:
    paths = paths_through(mapping, target)
    path = next(iter(paths.values()))
    if not any(placed.address == held.address for placed in path[: position_in(path, target)]):
        text = f"{format_address(target)} does not stand below {describe(held.node)}"
        raise refuse(text, held.address, "`hoist` moves a storage node up")
    start, end = position_in(path, held.address), position_in(path, target)
    passed = path[start + 1 : end + 1]
    for placed in passed:
        _pass(workload, held, placed, target)
    loops = [placed.address for placed in passed if isinstance(placed.node, Temporal)]
    if held.node.persistent and _passes_loops(mapping, workload, passed):
        text = f"{describe(held.node)} is persistent: nothing persists below a loop that replaces it"
        raise refuse(text, held.address, "storage that is not persistent may move")
    _check_alone(mapping, workload, held, passed)
    for tensor in held.tensors:
        if _is_backing(mapping, workload, tensor, held.address):
            check_exchange(mapping, workload, tensor, loops, path[end + 1].address)
    alone = replace(held.node, tensors=held.tensors)
    lower = with_storage(mapping, beside(target), alone)
    return without_tensors(lower, held.address, held.tensors)


def _is_backing(mapping: Mapping, workload: Workload, tensor: str, address: Address) -> bool:
    users = [e for e in paths_through(mapping, address) if tensor in workload.by_name[e].tensors]
    return any(holders(mapping, e, tensor)[0] == address for e in users)


def _check_alone(mapping: Mapping, workload: Workload, held: Held, passed: tuple[PlacedNode, ...]) -> None:
    """The loops above the outermost nodes of one tensor in several branches are alike, and stay so."""
    if not _passes_loops(mapping, workload, passed):
        return
    for tensor in held.tensors:
        if _is_one_of_several(mapping, workload, tensor, held.address):
            text = f"{tensor!r} has an outermost node in each of several branches, with the same loops above each"
            raise refuse(text, held.address, "`merge` unites the branches")


def _is_one_of_several(mapping: Mapping, workload: Workload, tensor: str, address: Address) -> bool:
    """Whether the node is the outermost one of a tensor for some of its users only."""
    if not _is_backing(mapping, workload, tensor, address):
        return False
    return any(address not in holders(mapping, e, tensor) for e in workload.users[tensor] if e in mapping.path_of)


def place_that_saves(mapping: Mapping, workload: Workload, address: Address, tensor: str) -> Address | None:
    """The last loop that a tensor may pass on its way down so that its tile shrinks at equal traffic; None: none."""
    paths = paths_through(mapping, address)
    users = [e for e in paths if tensor in workload.by_name[e].tensors]
    if not users or _is_lasting(paths[users[0]], address) or _is_one_of_several(mapping, workload, tensor, address):
        return None
    path = paths[users[0]]
    lowest = None
    for placed in path[position_in(path, address) + 1 :]:
        match placed.node:
            case Temporal() | SpatialLoop():
                met = met_at(mapping, workload, placed.address)
                if not iterates([met[e] for e in users if e in met]):
                    continue
                if isinstance(placed.node, SpatialLoop) or not _moves_on(mapping, workload, tensor, users, placed):
                    return lowest
                lowest = placed.address
            case Storage(tensors=tensors) | Toll(tensors=tensors):
                if tensor in tensors:
                    return lowest
            case Split():
                if len({paths[e][-1].address[len(placed.address)] for e in users}) > 1:  # in more than one branch
                    return lowest
            case Compute():
                return lowest
    return lowest


def _is_lasting(path: tuple[PlacedNode, ...], address: Address) -> bool:
    """Whether a node keeps data from visit to visit: below another loop it would keep something else, or nothing."""
    node = path[position_in(path, address)].node
    return isinstance(node, Storage) and (node.persistent or bool(node.sliding_window))


def _moves_on(mapping: Mapping, workload: Workload, tensor: str, users: list[str], placed: PlacedNode) -> bool:
    """Whether each iteration of a loop uses elements of the tensor that no other iteration uses."""
    steps = set()
    for name in users:
        einsum = workload.by_name[name]
        loops = loops_met(mapping.path_of[name], einsum)
        here = next(met for met in loops if met.placed.address == placed.address)
        advanced = advances(loops[: loops.index(here) + 1], einsum, einsum.by_tensor[tensor], here)
        alone = all(
            len(i.terms) == 1 for _, i in einsum.by_tensor[tensor].projection if dict(i.terms).get(here.variable)
        )
        if not advanced or not alone:
            return False
        steps.add(tuple((a.rank, a.step, a.first, a.constant) for a in advanced))
    return len(steps) == 1


def bypass(mapping: Mapping, workload: Workload, storage: Ref) -> Mapping:
    """Remove a storage node, or some of its tensors: they go past this memory.

    `bypass B@GLB`:

        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A, B]
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A]
          for n by 1
            for k by 1
              compute Z on MAC

    An intermediate may go past its outermost memory when one node further in, above the branches of all its users,
    can take its place; inputs and results of the workload may not.
    Raises MappingError when the tensor would come from nowhere.
    """
    check_tree(mapping, workload, at)
    held = find_storage(mapping, storage)
    for tensor in held.tensors:
        if _is_backing(mapping, workload, tensor, held.address):
            _check_new_backing(mapping, workload, tensor, held)
    return without_tensors(mapping, held.address, held.tensors)


def _check_new_backing(mapping: Mapping, workload: Workload, tensor: str, held: Held) -> None:
    word = held.node.component
    if tensor not in workload.intermediates:
        kind = "result" if tensor in workload.producers else "input"
        text = f"{word} is the outermost memory that holds the {kind} {tensor!r}"
        raise refuse(text, held.address, "only a holder further in can be left out")
    users = [e for e in mapping.path_of if tensor in workload.by_name[e].tensors]
    inner = {tuple(holders(mapping, e, tensor)[1:2]) for e in users}
    if len(inner) != 1 or () in inner:
        text = (
            f"{word} is the outermost memory that holds {tensor!r}, and no node further in holds it for all its users"
        )
        raise refuse(text, held.address, f"`keep` {tensor} further in, above the branches of {', '.join(users)}")
    ((new,),) = inner
    path = mapping.path_of[users[0]]
    between = path[position_in(path, held.address) + 1 : position_in(path, new)]
    for placed in between:
        if isinstance(placed.node, Toll) and tensor in placed.node.tensors:
            raise refuse(f"a toll would be the outermost holder of {tensor!r}", placed.address)
    loops = [placed.address for placed in between if isinstance(placed.node, Temporal)]
    check_exchange(mapping, workload, tensor, loops, new)


def keep(
    mapping: Mapping,
    workload: Workload,
    storage: str,
    *,
    above: Ref | None = None,
    below: Ref | None = None,
    persistent: bool = False,
    sliding_window: bool | None = None,
) -> Mapping:
    """Insert a storage node: the inverse of `bypass`. `storage` is written `A@GLB`, the place as for `hoist` or `sink`.

    `keep B@GLB below m`:

        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds A]
          for n by 1
            for k by 1
              compute Z on MAC
        ->
        [DRAM holds A, B, Z]
        for m by 1
          [GLB holds B, A]
          for n by 1
            for k by 1
              compute Z on MAC

    Raises MappingError for tensors that no Einsum below uses, that the memory holds already, or that no node further
    out holds.
    """
    check_tree(mapping, workload, at)
    tensors, component = tensors_at(storage)
    if (above is None) == (below is None):
        text = f"say where {storage} is to stand: `above` or `below` which node"
        raise MappingError(text, at=At(path="mapping"), hint="for example keep A@GLB below m")
    address = find_node(mapping, above).address if above is not None else _under(mapping, below or "")
    for tensor in tensors:
        _check_keep(mapping, workload, tensor, component, address)
        check_copies(mapping, workload, tensor, address)
    return with_storage(mapping, address, Storage(tensors, component, persistent, sliding_window))


def _under(mapping: Mapping, ref: Ref) -> Address:
    placed = find_node(mapping, ref)
    if isinstance(placed.node, Split | Compute):
        raise refuse("nothing can stand directly below this node", placed.address, "name the node to stand `above`")
    return beside(placed.address)


def _check_keep(mapping: Mapping, workload: Workload, tensor: str, component: str, address: Address) -> None:
    if tensor not in workload.users:
        hint = did_you_mean(tensor, workload.users, listing="tensors")
        raise refuse(f"the workload has no tensor {tensor!r}", address, hint)
    paths = paths_through(mapping, address)
    users = [e for e in paths if tensor in workload.by_name[e].tensors]
    if not users:
        raise refuse(f"no Einsum below uses {tensor!r}", address)
    for name in users:
        held = holders(mapping, name, tensor)
        for holder in held:
            node = mapping.at(holder)
            if isinstance(node, Storage) and node.component == component:
                text = f"{component} holds {tensor!r} already, at {format_address(holder)}"
                raise refuse(text, address, "`hoist` or `sink` moves it")
        outside = [h for h in held if position_in(paths[name], h) < position_in(paths[name], address)]
        if not outside and (tensor not in workload.intermediates or len(users) < len(workload.users[tensor])):
            raise refuse(
                f"no node above holds {tensor!r}, so it would come from nowhere", address, "keep it further in"
            )
