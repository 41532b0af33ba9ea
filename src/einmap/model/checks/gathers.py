"""Rules for mappings where an Einsum looks up rows of a table in an index tensor."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from einmap.arch.component import Memory
from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, MappingError, NotSupportedError, raise_all
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.model.counting.path import EinsumPath, Station, loops_above

type Where = Callable[[Address], At]


def check_gathers(
    mapping: LoopTree, workload: Workload, paths: Callable[[], Mapping[str, EinsumPath]], where: Where
) -> None:
    """Tables lie whole where they lie outermost, and rows are fetched when their indices are there.

    `paths`: makes that of each Einsum. Raises MappingError and NotSupportedError (several together).
    """
    gathering = [einsum for einsum in workload.einsums if einsum.gathers and einsum.name in mapping.path_of]
    if not gathering:
        return
    problems: list[EinmapError] = []
    for einsum in gathering:
        refuse_recurrences(
            [recurrence for recurrence in workload.recurrences if einsum.name in recurrence.einsums],
            f"the gather of {einsum.name!r}",
        )
        path = paths()[einsum.name]
        for access in einsum.gathers:
            stations = path.stations[access.tensor]
            problems += _table_in_parts(path, access, stations[0], where)
            problems += _parts_of_memories(path, access, where)
            for station in stations[1:]:
                problems += _rows_of_others(mapping, workload, path, access, station, where)
            if any(isinstance(placed.node, tree.Pipeline) for placed in mapping.path_of[einsum.name]):
                text = f"Einsum {einsum.name!r}, which looks up rows of {access.tensor!r}, below a Pipeline"
                problems.append(NotSupportedError(f"{text} is not supported yet", at=where(path.compute.address)))
    raise_all(problems)


def _table_in_parts(path: EinsumPath, access: TensorAccess, backing: Station, where: Where) -> Iterator[EinmapError]:
    """Above the outermost holder of a table no loop over the places of the indices has more than one iteration."""
    for loop in loops_above(path, backing):
        if loop.variable in access.variables - access.by_rank:
            yield MappingError(
                f"the loop over {loop.variable!r} stands above the outermost storage of {access.tensor!r}, of which "
                f"Einsum {path.einsum.name!r} looks up rows: any of them may be asked for, so it is held whole there",
                at=where(loop.address),
                hint=f"hold {access.tensor} above this loop",
            )


def _parts_of_memories(path: EinsumPath, access: TensorAccess, where: Where) -> Iterator[EinmapError]:
    """Where rows lie is not known: neither their lines nor their units are."""
    for station in path.stations[access.tensor]:
        memory = station.component
        if isinstance(memory, Memory) and (access.tensor in memory.layouts or memory.is_spread):
            what = f"{access.tensor!r} lies in {'several units' if memory.is_spread else 'lines'} of {memory.name!r}"
            text = f"{what}, and Einsum {path.einsum.name!r} looks up its rows"
            yield NotSupportedError(f"{text}: that is not supported yet", at=where(station.address))


def _rows_of_others(
    mapping: LoopTree, workload: Workload, path: EinsumPath, access: TensorAccess, station: Station, where: Where
) -> Iterator[EinmapError]:
    """Rows by position belong to one Einsum, and are fetched after Einsums have made their indices."""
    name, producers = path.einsum.name, workload.producers
    below = {other for other, nodes in mapping.path_of.items() if any(p.address == station.address for p in nodes)}
    makers = {producers[index.tensor] for index in access.lookups.values() if index.tensor in producers}
    # without a loop they share the rows are fetched when the Einsum begins that looks them up
    turns = {
        lp.address: lp.variable
        for lp in path.loops
        if lp.position > station.position and not lp.absent and not lp.is_spatial
    }
    waits = [
        (maker, p.address) for maker in sorted(below & makers) for p in mapping.path_of[maker] if p.address in turns
    ]
    if waits:
        maker, loop = waits[0]
        what = f"above the loop over {turns[loop]!r} in which Einsum {maker!r} makes the indices piece by piece"
    elif others := sorted(below.intersection(workload.users[access.tensor]) - {name}):
        what = f"in a node for {others[0]!r} as well, which does not use the same rows"
    else:
        return
    text = f"the rows of {access.tensor!r} that Einsum {name!r} looks up are held {what}"
    yield MappingError(text, at=where(station.address), hint=f"hold them in the branch of {name}")
