"""A Spec becomes a Program: check the mapping, declare, lower, tidy up."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.einsum.einsum import Einsum
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.numeric import keeps_integers
from einmap.einsum.operation import Operand
from einmap.emit.dead_definitions import tidied
from einmap.emit.declare import Declared, loop_names
from einmap.emit.identifiers import Language, Names
from einmap.emit.linear import Linear, named
from einmap.emit.lower import Lowering
from einmap.emit.program import Plain, Program
from einmap.emit.scope import Indices
from einmap.emit.symbols import symbols_of
from einmap.emit.tile_boxes import lane_turns, point_of
from einmap.errors import MappingError, NotSupportedError, raise_all
from einmap.mapping.nodes import format_address
from einmap.mapping.validate import validate
from einmap.model.counting.path import path_of
from einmap.model.evaluate import evaluate
from einmap.model.occupancy.sharing import half_reduced
from einmap.schedule.copies import check_copies
from einmap.schedule.routes import routes_of
from einmap.schedule.schedule import Schedule, schedule_of
from einmap.spec.spec import Spec


def program_of(spec: Spec, language: Language) -> Program:
    """The program of a mapping, with identifiers of `language`. Raises what `emit` raises."""
    schedule = _schedule(spec)
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
        plain_variables={t: names.identifier(f"{declared.variables[t]}_plain") for t in schedule.workload.producers},
    )


def _schedule(spec: Spec) -> Schedule:
    """The schedule of the mapping, once it is known that code can do it. Raises EinmapError."""
    tree = spec.mapping
    if tree is None:
        raise MappingError("no mapping given; name a file that has `mapping:`")
    workload = spec.workload
    refuse_gathers(workload.einsums, "emitted code", lambda n: spec.provenance(f"workload.einsums[{n}]"))
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


def _plain(einsum: Einsum, declared: Declared, names: Names) -> Plain:
    """The Einsum as loops over its rank variables."""
    first = dict(einsum.first_values)
    loop_identifiers = Names(names.language, dict(names.taken))  # loops of different Einsums may have the same names
    variables = {v: loop_identifiers.identifier(v) for v in einsum.rank_variables}
    starts: Mapping[str, Linear] = {v: named(name) for v, name in variables.items()}

    def accessed(output: bool) -> tuple[tuple[str, str, tuple[Linear, ...]], ...]:
        return tuple(
            (
                a.tensor,
                declared.variables[a.tensor],
                tuple(point_of(dict(a.projection)[rank], starts) for rank in declared.ranks[a.tensor]),
            )
            for a in einsum.accesses
            if a.output is output
        )

    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    assert expression is not None
    recurrences = enumerate(declared.schedule.workload.recurrences)
    number, step = next(((i, r.variable) for i, r in recurrences if einsum.name in r.einsums), (-1, ""))
    return Plain(
        einsum.name,
        tuple((variables[v], first.get(v, 0), n) for v, n in einsum.bounds),
        expression,
        einsum.operation.reduction,
        einsum.is_copy,
        accessed(False),
        accessed(True),
        variables.get(step, ""),
        number,
    )
