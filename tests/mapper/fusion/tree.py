"""One LoopTree from fitting chains of all Einsums."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from tests.mapper.fusion.chains import LinearNest

from einmap.einsum.workload import Workload
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping


@dataclass(frozen=True)
class Entry:
    """A node of a chain. `owner`: its Einsum, or None for the backing node of a shared tensor, which all have."""

    node: tree.Node
    owner: str | None


def tree_of(
    chains: Sequence[LinearNest], shared_loops: Sequence[int], workload: Workload, outermost: MappingOf[str, str]
) -> Mapping:
    """The tree of chains in workload order.

    `shared_loops`: for each Einsum but the first, the loops that it shares with the one before. `outermost`: the
    outermost memory of each Einsum. Tensors stand in nodes of their own, so that their order is that of the chains.
    """
    rest = {chain.einsum: _entries(chain, workload) for chain in chains}
    top: list[tree.Node] = []
    for name, entries in rest.items():
        while isinstance(entries[0].node, tree.Storage) and entries[0].node.component == outermost[name]:
            node = entries.pop(0).node
            if node not in top:
                top.append(node)
    names = tuple(chain.einsum for chain in chains)
    return Mapping((*top, *_group(names, 0, dict(zip(names[1:], shared_loops, strict=True)), rest, workload)))


def _entries(chain: LinearNest, workload: Workload) -> list[Entry]:
    found = []
    held: set[str] = set()
    for node in chain.nodes:
        backs = isinstance(node, tree.Storage) and node.tensors[0] not in held and node.tensors[0] in workload.shared
        found.append(Entry(node, None if backs else chain.einsum))
        if isinstance(node, tree.Storage):
            held.add(node.tensors[0])
    return found


def _group(
    names: tuple[str, ...], depth: int, between: dict[str, int], rest: dict[str, list[Entry]], workload: Workload
) -> tuple[tree.Node, ...]:
    """The nodes of consecutive Einsums that have `depth` loops above them in common.

    `between`: loops that an Einsum shares with the one before; `rest`: what is left of the chains, from which the nodes
    are taken.
    """
    if len(names) == 1:
        return tuple(entry.node for entry in rest[names[0]])
    deepest = min(between[name] for name in names[1:])
    found: list[tree.Node] = []
    for level in range(depth, deepest + 1):
        taken: list[list[Entry]] = []
        for name in names:
            entries = rest[name]
            n = next(i for i, e in enumerate(entries) if not isinstance(e.node, tree.Storage | tree.Toll))
            above = entries[:n] if level < deepest else _above_split(entries[:n], names, workload)
            taken.append(above)
            rest[name] = [e for e in entries if e not in above]
        found += _in_one_order(taken)
        if level < deepest:
            found.append(_one_loop({name: rest[name].pop(0).node for name in names}))
    cuts = [0, *(i for i, name in enumerate(names) if i and between[name] == deepest), len(names)]
    branches = tuple(_group(names[a:b], deepest, between, rest, workload) for a, b in pairwise(cuts))
    return (*found, tree.Sequential(branches))


def _above_split(entries: list[Entry], names: tuple[str, ...], workload: Workload) -> list[Entry]:
    """Of the nodes below the last common loop those that stand above the split.

    The backing nodes of tensors that several of the Einsums use; and what stands above those in the chain, so that the
    order of the chain is kept, unless it is another node of a tensor that several use.
    """
    used = [sum(user in names for user in workload.users[_tensor(e)]) for e in entries]
    last = max((i for i, e in enumerate(entries) if e.owner is None and used[i] > 1), default=-1)
    return [e for i, e in enumerate(entries) if i <= last and (e.owner is None or used[i] == 1)]


def _tensor(entry: Entry) -> str:
    assert isinstance(entry.node, tree.Storage | tree.Toll)
    return entry.node.tensors[0]


def _in_one_order(lists: list[list[Entry]]) -> list[tree.Node]:
    """One list that keeps the order of each; an entry that several lists have stands once."""
    left = [list(entries) for entries in lists]
    found: list[tree.Node] = []
    while any(left):
        outer_nests = [entries[0] for entries in left if entries]
        free = [outer_nest for outer_nest in outer_nests if not any(outer_nest in entries[1:] for entries in left)]
        # two chains may have nodes of one memory in opposite orders: either will do
        chosen = (free or outer_nests)[0]
        found.append(chosen.node)
        left = [[e for e in entries if e != chosen] for entries in left]
    return found


def _one_loop(loops: dict[str, tree.Node]) -> tree.Node:
    """One loop for all: variable and tile shape by Einsum where they differ."""
    variables: dict[str, str | None] = {}
    shapes: dict[str, int | None] = {}
    kinds = set()
    for name, loop in loops.items():
        assert isinstance(loop, tree.Temporal | tree.Spatial)
        variables[name], shapes[name] = loop.rank_variable.default, loop.tile_shape.default
        kinds.add((loop.component, loop.name) if isinstance(loop, tree.Spatial) else None)
    (kind,) = kinds
    if kind is None:
        return tree.Temporal(_per_einsum(variables), _per_einsum(shapes))
    return tree.Spatial(_per_einsum(variables), _per_einsum(shapes), *kind)


def _per_einsum[T](values: dict[str, T | None]) -> tree.PerEinsum[T]:
    if len(set(values.values())) == 1:
        return tree.PerEinsum(next(iter(values.values())))
    return tree.PerEinsum(None, tuple((name, value) for name, value in values.items() if value is not None))
