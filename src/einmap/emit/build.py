"""A Spec becomes a Program: check the mapping, declare, lower, tidy up."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.numeric import keeps_integers
from einmap.einsum.operation import Operand
from einmap.einsum.spaces.projection import Lookup
from einmap.emit.language.dead_definitions import tidied
from einmap.emit.language.identifiers import Language, Names
from einmap.emit.language.linear import Linear, named, number
from einmap.emit.language.program import Found, Plain, Program
from einmap.emit.language.symbols import symbols_of
from einmap.emit.lowering.declare import Declared, loop_names
from einmap.emit.lowering.liveness import within
from einmap.emit.lowering.lower import Lowering
from einmap.emit.lowering.scope import Indices
from einmap.emit.lowering.tile_boxes import lane_turns, memories, place_of_indices, point_of
from einmap.errors import MappingError, NotSupportedError, raise_all
from einmap.mapping.nodes import format_address
from einmap.mapping.validate import validate
from einmap.model.checks.half_reduced import half_reduced
from einmap.model.counting.path import path_of
from einmap.model.evaluate import evaluate
from einmap.schedule.copies import check_copies
from einmap.schedule.routes import routes_of
from einmap.schedule.schedule import Schedule, schedule_of
from einmap.spec.spec import Spec


def program_of(spec: Spec, language: Language) -> Program:
    """The program of a mapping, with identifiers of `language`. Raises what `emit` raises."""
    schedule = schedule_to_emit(spec)
    _refuse_scattered_indices(spec, schedule)
    names = Names(language)
    # tensors keep their names before anything else takes them
    for tensor in schedule.workload.tensors:
        names.taken.setdefault(tensor, tensor)
    index_of = loop_names(schedule.routes.values(), names)
    for tensor in schedule.workload.tensors:
        del names.taken[tensor]
    declared = Declared(schedule, names, index_of)
    body = tidied(Lowering(schedule, declared, Indices(names, index_of)).run())
    plain = tuple(_plain(einsum, declared, names) for einsum in schedule.workload.einsums)
    return Program(
        tensors=declared.tensors(),
        buffers=tuple(declared.buffers.values()),
        counters=declared.sorted_counters(),
        body=body,
        plain=plain,
        exact=all(e.is_copy or keeps_integers(e.operation.map) for e in schedule.workload.einsums),
        renamed=tuple(sorted(names.renamed.items())),
        symbols=symbols_of(schedule.routes, index_of, names),
        instances=schedule.workload.n_instances,
        variables=dict(declared.variables),
        plain_functions={e.name: names.identifier(f"plain_{e.name}") for e in schedule.workload.einsums},
        shapes=dict(declared.shapes),
        first=dict(declared.first),
        plain_variables={t: names.identifier(f"{declared.variables[t]}_plain") for t in schedule.workload.producers},
    )


def schedule_to_emit(spec: Spec) -> Schedule:
    """The schedule of the mapping, once it is known that code can do it. Raises EinmapError."""
    tree = spec.mapping
    if tree is None:
        raise MappingError("no mapping given; name a file that has `mapping:`")
    spec.refuse_sparsity("emitted code")
    workload = spec.workload
    archs = spec.archs
    validate(tree, workload, archs, spec.place_of_node, [e.name for e in workload.einsums])
    check_copies(spec)
    evaluate(spec, semantics="exact")
    order = [path[-1].node.einsum for path in tree.paths]  # type: ignore[union-attr]
    paths = {n: path_of(tree, workload.by_name[n], archs[n]) for n in order}
    partial = half_reduced(workload, tuple(order), paths, spec.place_of_node, workload.intermediates)
    raise_all([MappingError(f"the code would be wrong: {note.text}", at=note.at) for note in partial])
    schedule = schedule_of(tree, workload, routes_of(tree, workload, archs), spec.model_options.sliding_window)
    for (address, tensor), loop in schedule.sliding.items():
        place = schedule.places[address, tensor]
        if tensor in workload.states and not lane_turns(place.users[0], place.hold.level):
            continue  # the code has all its steps
        raise NotSupportedError(
            f"{tensor!r} is held in a line buffer that slides along {format_address(loop)}; "
            "code for sliding windows cannot be emitted yet",
            at=spec.place_of_node(address),
            hint="leave out sliding_window: each tile is then fetched in full",
        )
    return schedule


def _refuse_scattered_indices(spec: Spec, schedule: Schedule) -> None:
    """Raise NotSupportedError where rows are looked up for several lanes at once, and each lane has its indices."""
    for route in schedule.routes.values():
        for access in route.einsum.gathers:
            inner = memories(route, access.tensor)[1:]
            level = inner[0].level if inner else route.unit_level
            for index in access.lookups.values():
                hold = place_of_indices(schedule, route, index.tensor).holds[route.einsum.name]
                if len(lane_turns(route, hold.level)) > len(lane_turns(route, level)):
                    raise NotSupportedError(
                        f"rows of {access.tensor!r} that Einsum {route.einsum.name!r} looks up are fetched into "
                        f"{inner[0].component.name!r} for several instances of {hold.component.name!r}, each of which "
                        f"has its own values of {index.tensor!r}; code for that cannot be emitted yet",
                        at=spec.place_of_node(inner[0].address),
                        hint=f"hold {index.tensor} above these lanes",
                    )


def _plain(einsum: Einsum, declared: Declared, names: Names) -> Plain:
    """The Einsum as loops over its rank variables."""
    first = dict(einsum.first_values)
    loop_identifiers = Names(names.language, dict(names.taken))  # loops of different Einsums may have the same names
    variables = {v: loop_identifiers.identifier(v) for v in einsum.rank_variables}
    starts: Mapping[str, Linear] = {v: named(name) for v, name in variables.items()}

    def points(access: TensorAccess) -> tuple[Linear, ...]:
        return tuple(point_of(dict(access.projection)[rank], starts) for rank in declared.ranks[access.tensor])

    def places(access: TensorAccess) -> tuple[Linear | Found, ...]:
        written = dict(access.written)
        indices = [written[rank] for rank in declared.ranks[access.tensor]]
        return tuple(found(index) if isinstance(index, Lookup) else point_of(index, starts) for index in indices)

    def found(index: Lookup) -> Found:
        at = dict(index.projection)
        points = tuple((point_of(at[rank], starts), number(1)) for rank in declared.ranks[index.tensor])
        return Found(index.tensor, points, index.size)

    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    assert expression is not None
    recurrences = enumerate(declared.schedule.workload.recurrences)
    recurrence, step = next(((i, r.variable) for i, r in recurrences if einsum.name in r.einsums), (-1, ""))
    return Plain(
        einsum.name,
        tuple((variables[v], first.get(v, 0), n) for v, n in einsum.bounds),
        expression,
        einsum.operation.reduction,
        einsum.is_copy,
        tuple((a.tensor, declared.variables[a.tensor], places(a)) for a in einsum.accesses if not a.output),
        tuple((a.tensor, declared.variables[a.tensor], points(a)) for a in einsum.accesses if a.output),
        variables.get(step, ""),
        recurrence,
        within(einsum, starts),
    )
