"""Tighten lower bounds under a cutoff: what no cascade up to it can have is left out, and bounds rise.

A chain whose cheapest cascade is beyond the limit is left out. Then its neighbours may have to keep more, less fits
beside that, and other chains are beyond the limit, too; and so on, as long as much is left out each time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.mapper.fusion.paths.shortest_paths import ContendedMemories, PackedOptions, ShortestPaths
from einmap.mapper.fusion.paths.state_graph import Stage, StateGraph

TURNS = 8
"""How often bounds are found again at most."""
WORTH = 1 / 16
"""It is not worth the time where a smaller part of the chains was left out."""


def tighten_bounds(
    graph: StateGraph,
    room: ContendedMemories,
    paths: ShortestPaths,
    every: Mapping[Stage, PackedOptions],
    closed: Mapping[Stage, Bools] | None,
    values: Callable[[Floats], Floats],
    limit: float,
) -> ShortestPaths | None:
    """Least costs of paths up to a limit, None where there are none.

    `paths`: those without one. `closed`: for each option whether no such path has its last row, of what is not known.
    `values`: the least objective for each row of least weighted costs.
    """
    every, edges = dict(every), {stage: stage.edges for stage in every}
    for _ in range(TURNS):
        rows = pruned = 0
        for stage, options in every.items():
            option = options.option
            good = values(paths.rests[stage][option] + options.costs) <= limit
            if closed is not None:
                good[(np.cumsum(options.n_rows) - 1)[closed[stage]]] = False
            rows, pruned = rows + len(good), pruned + int((~good).sum())
            if not good.all():
                every[stage] = options.only(good)
                edges[stage] = edges[stage][every[stage].n_rows[edges[stage][:, 1]] > 0]
                if not len(edges[stage]):
                    return None
        closed = None
        if pruned <= WORTH * rows:
            break
        paths = ShortestPaths(graph, paths.weights, room, every, edges)
        if not values(paths.least[None])[0] <= limit:
            return None
    return paths
