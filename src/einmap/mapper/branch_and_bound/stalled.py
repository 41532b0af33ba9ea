"""Mappings of machines that stall tile by tile, as searches come to them: in their best order, with their real latency.

Columns of cost are lower bounds there (`model.stalls.winding_up`), and energy does not depend on stalls. The loops of a
gap may stand in any order at the same cost but for stalls: a loop that an output does not have makes all but its first
iteration bring partial results back in, and its place decides in which turns that is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product

import numpy as np

from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.branch_and_bound.decode import nodes_of
from einmap.mapper.branch_and_bound.path_search import Descent, PathSearch, TemplateTables
from einmap.mapper.mapspace.template import joined
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.objective.tolerances import TIE
from einmap.mapping import nodes as tree
from einmap.mapping.nodes import Node
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import path_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic

MOST_ORDERS = 200
"""Orders of the loops of one mapping that are tried, about a second where there are many turns."""


def best_order(search: PathSearch, nodes: Sequence[Node], floor: float = 0.0) -> tuple[list[Node], float] | None:
    """A chain with the order of loops that stalls least, and its latency (s); None where stalls cannot be counted.

    `nodes`: from the outside in, each storage node with one tensor; `floor`: no order takes less.
    """
    assert search.machine is not None
    best: tuple[list[Node], float] | None = None
    arch = search.machine.arch
    for number, chain in enumerate(orders(nodes, search.einsum, search.machine.memory)):
        if number == MOST_ORDERS:
            search.machine.has_more_orders = True
            break
        path = path_of(joined(chain), search.einsum, arch)
        try:
            cost = einsum_cost(path, EinsumTraffic(path, search.rules), arch)
        except NotSupportedError:
            return None
        if best is None or cost.latency < best[1] * (1 - TIE):
            best = chain, float(cost.latency)
        if best[1] <= floor * (1 + TIE):
            break
    return best


def settled(search: PathSearch, nodes: Iterable[Node]) -> list[Node]:
    """A chain that was found, in the order that was found best; as it is where nothing stalls tile by tile."""
    chain = list(nodes)
    found = None if search.machine is None else best_order(search, chain)
    return chain if found is None else found[0]


def _values(search: PathSearch, walk: Descent, depth: int, latency: float) -> Floats:
    costs = walk.acc[depth].copy()
    costs[1:] = latency
    values: Floats = np.empty(len(search.value_codes))
    leak = float(search.leak[int(walk.prefix_at[depth])])
    objective_kernels.objectives(
        costs, leak, walk.occupied[depth], search.capacity, walk.kept, search.value_codes, values
    )
    return values


def offer_stalled(
    archive: Archive, search: PathSearch, compiled: TemplateTables, walk: Descent, plan: int
) -> Floats | None:
    """Put the mapping that a walk has come to, with its real latency, into an archive.

    What no order of its loops is below, where not all of them were tried.
    """
    assert search.machine is not None
    depth = len(compiled.levels)
    prefix, points = int(walk.prefix_at[depth]), [int(x) for x in walk.point_at[1 : depth + 1]]
    least = float(walk.acc[depth, 1:].max())
    before, search.machine.has_more_orders = search.machine.has_more_orders, False
    found = best_order(search, list(nodes_of(search, compiled, prefix, points)), least)
    if found is not None:
        offer(archive, _values(search, walk, depth, found[1]), walk, prefix, plan)
    cut, search.machine.has_more_orders = search.machine.has_more_orders, search.machine.has_more_orders or before
    return _values(search, walk, depth, least) if cut else None


def offer(archive: Archive, values: Floats, walk: Descent, prefix: int, plan: int) -> None:
    """Put a mapping that a walk has come to into an archive, unless something there is as good."""
    if archive.beats(values, TIE):
        return
    if archive.n == len(archive.values):
        archive.grow()
    archive.n = kernels.take(values, walk.point_at[1:], prefix, plan, archive.values, archive.paths, archive.n)


def orders(nodes: Sequence[Node], einsum: Einsum, memory: str) -> Iterator[list[Node]]:
    """The chain with every order of loops that may stall otherwise; the given one first."""
    held = [(i, node) for i, node in enumerate(nodes) if isinstance(node, tree.Storage) and node.component == memory]
    inside = {tensor for _, node in held for tensor in node.tensors}
    moving = [access for access in einsum.accesses if access.output and access.tensor in inside]
    runs = []
    for begin, loops in _gaps(nodes[: held[-1][0]]) if moving else ():
        kinds = tuple(
            tuple(access.relevance(str(loop.rank_variable.default)) is Relevance.NONE for access in moving)
            for loop in loops
        )
        runs.append([(begin, order) for order in _distinct(kinds)])
    for chosen in product(*runs):
        chain = list(nodes)
        for begin, order in chosen:
            chain[begin : begin + len(order)] = _in_order(nodes[begin : begin + len(order)], order)
        yield chain


def _gaps(nodes: Sequence[Node]) -> Iterator[tuple[int, list[tree.Temporal]]]:
    """Temporal loops that stand one below the other, with the place of the first one."""
    run: list[tree.Temporal] = []
    for i, node in enumerate((*nodes, None)):
        if isinstance(node, tree.Temporal):
            run.append(node)
            continue
        if len(run) > 1:
            yield i - len(run), run
        run = []


@lru_cache(maxsize=1024)
def _distinct(kinds: tuple[tuple[bool, ...], ...]) -> list[tuple[int, ...]]:
    """Orders of loops, without those that only swap neighbours of one kind."""
    found: dict[tuple[frozenset[int], ...], tuple[int, ...]] = {}
    for order in permutations(range(len(kinds))):
        groups: list[set[int]] = []
        for at, number in enumerate(order):
            if at and kinds[order[at - 1]] == kinds[number]:
                groups[-1].add(number)
            else:
                groups.append({number})
        found.setdefault(tuple(map(frozenset, groups)), order)
    return list(found.values())


def _in_order(loops: Sequence[Node], order: Sequence[int]) -> list[Node]:
    return [loops[i] for i in order]
