"""Rewrites of splits: loops that several branches begin with, written once above the split, and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping
from einmap.mapping.met_loops import MetLoop
from einmap.mapping.nodes import (
    Address,
    LoopNode,
    PerEinsum,
    Pipeline,
    Sequential,
    Spatial,
    Split,
    Storage,
    Temporal,
    Toll,
    format_address,
)
from einmap.mapping.pretty import describe
from einmap.mapping.rewrite.editing import Nodes, beside, each, einsums_in, paths_through, replaced, siblings
from einmap.mapping.rewrite.places import Ref, at, find_loop, find_split, refuse
from einmap.mapping.rewrite.values import check_copies, check_exchange, check_lanes, holders, met_at
from einmap.mapping.validate import check_tree


def merge(
    mapping: Mapping, workload: Workload, split: Ref | None = None, branches: Sequence[int] | None = None
) -> Mapping:
    """Branches that begin with equal loops get one loop above their split, its variable by Einsum where names differ.

    `merge`:

        [DRAM holds A, D, T, Y]
        first:
          for m by 2
            [GLB holds T]
            for m by 1
              for k by 1
                compute T on MAC
        then:
          for p by 2
            [GLB holds T]
            for p by 1
              for n by 1
                compute Y on MAC
        ->
        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          first:
            [GLB holds T]
            for m by 1
              for k by 1
                compute T on MAC
          then:
            [GLB holds T]
            for p by 1
              for n by 1
                compute Y on MAC

    `split`: by default the only one; `branches`: which of its branches (neighbours, numbered from 0), by default all;
    when some are left over, the merged ones become one branch with a split of its own. An intermediate that is backed
    in each of these branches, directly below the loop, is backed once between loop and split.
    Raises MappingError when the loops differ in number of iterations, when a branch would read what another one has
    not written yet in the same iteration, or when a copy Einsum would write piece by piece past a node above the loop.
    """
    check_tree(mapping, workload, at)
    address, node = find_split(mapping, split)
    _refuse_pipeline(node, address)
    chosen = chosen_branches(address, node, branches)
    loops = [_first_loop(node, address, b) for b in chosen]
    met = {e: m for b in chosen for e, m in met_at(mapping, workload, (*address, b, 0)).items()}
    loop = _common(address, loops, met)
    _check_exchanges(mapping, workload, address, chosen, met, loop)
    united, bodies = _united(mapping, workload, address, [node.branches[b] for b in chosen])
    merged = (loop, *united, Sequential(bodies))
    if len(chosen) == len(node.branches):
        done, place = replaced(mapping, address, 1, merged), address
    else:
        others = (*node.branches[: chosen[0]], merged, *node.branches[chosen[-1] + 1 :])
        done, place = replaced(mapping, address, 1, (Sequential(others),)), (*address, chosen[0], 0)
    _check_copied(done, workload, place)
    return done


def _check_copied(mapping: Mapping, workload: Workload, loop: Address) -> None:
    """Judged on the tree with the loop: no node of a copied tensor but its outermost one stands above it."""
    for name in paths_through(mapping, loop):
        for tensor in sorted(workload.by_name[name].outputs if workload.by_name[name].is_copy else ()):
            readers = [e for e in paths_through(mapping, loop) if e != name and tensor in workload.by_name[e].tensors]
            if any(holder < loop for e in readers for holder in holders(mapping, e, tensor)[1:]):
                check_copies(mapping, workload, tensor, loop)


def _refuse_pipeline(node: object, address: Address) -> None:
    if isinstance(node, Pipeline):
        hint = "`sequence` lets its branches take turns first, `pipeline` makes stages of them again"
        raise refuse("the loops above a Pipeline make its tiles; to move them is not supported yet", address, hint)


def chosen_branches(address: Address, node: Split, branches: Sequence[int] | None) -> tuple[int, ...]:
    """Numbers of neighbouring branches, at least two; None: of all. Raises MappingError."""
    count = len(node.branches)
    chosen = tuple(range(count)) if branches is None else tuple(sorted(set(branches)))
    if not chosen or chosen[0] < 0 or chosen[-1] >= count or chosen[-1] - chosen[0] != len(chosen) - 1:
        text = f"branches {', '.join(map(str, chosen)) or 'none'}: they must be neighbours, of 0 to {count - 1}"
        raise refuse(text, address)
    if len(chosen) < 2:
        raise refuse("one branch has no loop in common with others", address, "name at least two branches")
    return chosen


def _first_loop(node: Split, address: Address, branch: int) -> LoopNode:
    first = node.branches[branch][0]
    if isinstance(first, Temporal | Spatial):
        return first
    described = "a split" if isinstance(first, Split) else describe(first)
    hint = "`sink` moves a storage node below the loop" if isinstance(first, Storage) else None
    raise refuse(f"this branch begins with {described}, not with a loop", (*address, branch, 0), hint)


def _common(address: Address, loops: list[LoopNode], met: dict[str, MetLoop]) -> LoopNode:
    kinds = {(loop.component, loop.name) if isinstance(loop, Spatial) else None for loop in loops}
    if len(kinds) > 1:
        shown = " and ".join(describe(loop) for loop in loops)
        raise refuse(f"the branches begin with loops of different kinds: {shown}", address)
    counts = {name: loop.iterations for name, loop in met.items()}
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n} for {name!r}" for name, n in counts.items())
        text = f"the loops that the branches begin with differ in number of iterations: {shown}"
        raise refuse(text, address, "`split` or `interchange` may give the branches equal ones")
    variable = each({name: loop.variable for name, loop in met.items()})
    shape = each({name: loop.shape for name, loop in met.items()})
    lanes = kinds.pop()
    if lanes is not None:
        return Spatial(variable, shape, *lanes)
    initial = {name: loop.initial for name, loop in met.items() if loop.initial is not None}
    if initial and len(initial) < len(met):
        text = "some of the loops that the branches begin with have an initial tile shape, others have none"
        raise refuse(text, address)
    return Temporal(variable, shape, each(initial) if initial else PerEinsum())


def _check_exchanges(
    mapping: Mapping,
    workload: Workload,
    address: Address,
    chosen: tuple[int, ...],
    met: dict[str, MetLoop],
    loop: LoopNode,
) -> None:
    """Judged on the tree with the loop above the split: what one branch writes, another reads in the same iteration.

    Lanes may exchange less alike through a memory above them, which all of them share.
    """
    split = mapping.at(address)
    assert isinstance(split, Split)
    bodies = tuple(split.branches[b][1:] for b in chosen)
    common = replaced(mapping, address, 1, (loop, Sequential(bodies)))
    branch_of = {e: b for b, body in enumerate(bodies) for e in einsums_in(body)}
    for tensor in sorted(workload.intermediates):
        users = [e for e in met if tensor in workload.by_name[e].tensors]
        if len({branch_of[e] for e in users}) < 2 or workload.producers[tensor] not in users:
            continue
        if not isinstance(loop, Spatial):
            check_exchange(common, workload, tensor, [address], beside(address))
        elif any(_stands_above(mapping, e, tensor, address) for e in users):
            check_lanes(common, workload, tensor, address)


def _united(
    mapping: Mapping, workload: Workload, address: Address, branches: list[Nodes]
) -> tuple[tuple[Storage, ...], tuple[Nodes, ...]]:
    """Backing nodes that several branches have of one intermediate, and the branches below their loop without them."""
    bodies = [branch[1:] for branch in branches]
    united: list[Storage] = []
    for tensor in sorted(workload.intermediates):
        using = [i for i, b in enumerate(bodies) if any(tensor in workload.by_name[e].tensors for e in einsums_in(b))]
        held = [_leading(bodies[i], tensor) for i in using]
        outside = any(_stands_above(mapping, e, tensor, address) for i in using for e in einsums_in(bodies[i]))
        if len(using) < 2 or outside or any(node is None for node in held):
            continue
        nodes = [node for node in held if node is not None]
        if len({replace(node, tensors=()) for node in nodes}) > 1:
            continue
        united.append(replace(nodes[0], tensors=(tensor,)))
        for i in using:
            bodies[i] = _without(bodies[i], tensor, nodes[0].component)
    return tuple(united), tuple(bodies)


def _stands_above(mapping: Mapping, einsum: str, tensor: str, address: Address) -> bool:
    return any(holder < address for holder in holders(mapping, einsum, tensor))


def _leading(body: Nodes, tensor: str) -> Storage | None:
    """The storage node of `tensor` among those that a list begins with."""
    run = takewhile(lambda node: isinstance(node, Storage | Toll), body)
    return next((node for node in run if isinstance(node, Storage) and tensor in node.tensors), None)


def _without(body: Nodes, tensor: str, component: str) -> Nodes:
    parts: list[Nodes] = []
    for node in body:
        if isinstance(node, Storage) and node.component == component and tensor in node.tensors:
            left = tuple(t for t in node.tensors if t != tensor)
            parts.append((replace(node, tensors=left),) if left else ())
        else:
            parts.append((node,))
    return tuple(node for nodes in parts for node in nodes)


def merged_for(
    mapping: Mapping, workload: Workload, tensor: str, first: str, second: str
) -> tuple[Mapping, tuple[str, ...]]:
    """Branches merged until two Einsums exchange `tensor` through one outermost node; with the steps as written.

    Raises MappingError when `merge` does not lead there.
    """
    steps: list[str] = []
    while holders(mapping, first, tensor)[0] != holders(mapping, second, tensor)[0]:
        split, branches = _between(mapping, first, second)
        mapping = merge(mapping, workload, split, branches)
        steps.append(" ".join(["merge", format_address(split), *map(str, branches)]))
    return mapping, tuple(steps)


def _between(mapping: Mapping, first: str, second: str) -> tuple[Address, tuple[int, ...]]:
    """The split where the paths of two Einsums part, and the branches from the one to the other."""
    for node, other in zip(mapping.path_of[first], mapping.path_of[second], strict=False):
        if node.address != other.address:
            depth = len(node.address) - 2
            ends = sorted((node.address[depth], other.address[depth]))
            return node.address[:depth], tuple(range(ends[0], ends[1] + 1))
    raise AssertionError(f"{first} and {second} have one path")


def distribute(mapping: Mapping, loop: Ref) -> Mapping:
    """A loop directly above a split moves into each of its branches: the inverse of `merge`.

    `distribute m#1`:

        [DRAM holds A, D, T, Y]
        for {T: m, Y: p} by 2
          first:
            for m by 1
              for k by 1
                compute T on MAC
          then:
            for p by 1
              for n by 1
                compute Y on MAC
        ->
        [DRAM holds A, D, T, Y]
        first:
          for m by 2
            for m by 1
              for k by 1
                compute T on MAC
        then:
          for p by 2
            for p by 1
              for n by 1
                compute Y on MAC

    What the branches exchange must be stored above the loop: a storage node between loop and split is in the way.
    A split that is all of a branch becomes branches of the outer one.
    Raises MappingError when no split stands directly below the loop.
    """
    placed = find_loop(mapping, loop)
    below = siblings(mapping, placed.address)[placed.address[-1] + 1]
    if not isinstance(below, Split):
        hint = "`hoist` moves a storage node above the loop" if isinstance(below, Storage) else None
        raise refuse(f"{describe(below)} stands directly below this loop, not a split", placed.address, hint)
    _refuse_pipeline(below, beside(placed.address))
    branches = tuple((_for(placed.node, einsums_in(branch)), *branch) for branch in below.branches)
    address = placed.address
    if len(address) == 1 or address[-1] > 0:
        return replaced(mapping, address, 2, (Sequential(branches),))
    outer, branch = address[:-2], address[-2]
    split = mapping.at(outer)
    assert isinstance(split, Split)
    joined = (*split.branches[:branch], *branches, *split.branches[branch + 1 :])
    return replaced(mapping, outer, 1, (Sequential(joined),))


def _for(node: LoopNode, einsums: tuple[str, ...]) -> LoopNode:
    """The loop as the Einsums of one branch need it."""
    variable, shape = _narrowed(node.rank_variable, einsums), _narrowed(node.tile_shape, einsums)
    if isinstance(node, Spatial):
        return Spatial(variable, shape, node.component, node.name)
    return Temporal(variable, shape, _narrowed(node.initial_tile_shape, einsums))


def _narrowed[T](value: PerEinsum[T], einsums: tuple[str, ...]) -> PerEinsum[T]:
    values = {name: of_einsum for name in einsums if (of_einsum := value.of(name)) is not None}
    return each(values) if values else PerEinsum()
