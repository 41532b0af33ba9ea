"""The request of a user: placements of tensors and loops of Einsums, checked against workload and mesh."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import MeshPart, Placement, Split, block_of
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.numeric import graph_inputs
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.visible import short

type Where = tuple[str | int, ...]
type Locate = Callable[[Where], At | None]
"""The place in a file of what is given under some keys, such as ("placements", "A", "K")."""

PARTIAL, ON = "partial", "on"
"""The key of a placement that names the axes of partial sums."""


@dataclass(frozen=True, slots=True)
class Turns:
    """Einsums that go over the values of `variable` of the first of them block by block; the blocks of what is split
    over `axes` travel from PE to PE meanwhile, or so many `panels` are gathered one after another.
    """

    einsums: tuple[str, ...]
    variable: RankVar
    axes: tuple[AxisName, ...]
    panels: int | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """`placements` of tensors; `loops`: of Einsums, the axes of each split rank variable; `overlap`: Einsums whose
    reduce-scatter runs in chunks, each while the next is computed; `turns`: Einsums that run block by block;
    `prefetch`: tensors that are moved while an Einsum before their reader runs; `same`: results, and the graph inputs
    as which they lie.
    """

    placements: Mapping[TensorName, Placement]
    loops: Mapping[str, Mapping[RankVar, tuple[AxisName, ...]]]
    overlap: frozenset[str]
    turns: tuple[Turns, ...] = ()
    prefetch: tuple[tuple[TensorName, str], ...] = ()
    same: tuple[tuple[TensorName, TensorName], ...] = ()


@dataclass(frozen=True, slots=True)
class Context:
    """The context that requests are checked against. `sizes`: of each tensor's ranks."""

    workload: Workload
    mesh: Mesh
    sizes: Mapping[TensorName, Mapping[Rank, int]]
    imperfect: bool
    locate: Locate

    def __post_init__(self) -> None:
        refuse_gathers(self.workload.einsums, "distribution")

    def error(self, where: Where, message: str, hint: str | None = None) -> SpecError:
        """The problem with its place."""
        return SpecError(message, at=self.locate(where), hint=hint)


def no_place(_: Where) -> None:
    """The place of a request that was made in Python: none, since it stands in no file."""


def checked_request(
    context: Context,
    placements: Any = None,
    loops: Any = None,
    overlap: Any = None,
    turns: Any = None,
    prefetch: Any = None,
) -> Request:
    """The request with everything resolved. Raises SpecError (several problems together).

    `placements`: by tensor, a dictionary of rank and mesh axes (`{"K": "x"}`, `{"K": ["x", "y"]}`,
    `{"G": {"axes": "x", "granule": 16}}`) and perhaps `partial`, or the text "replicated".
    `loops`: by Einsum, a dictionary of rank variable and mesh axes.
    `turns`: a list of `{"einsums": ["Z"], "over": {"k": "x"}}`; `prefetch`: by tensor, an Einsum.
    """
    problems: list[EinmapError] = []
    placed = {
        tensor: attempt(problems, partial(_placement, context, tensor, value))
        for tensor, value in dictionary_at(context, ("placements",), placements, "tensors and their placements").items()
    }
    spread = {
        einsum: attempt(problems, partial(_loops, context, einsum, value))
        for einsum, value in dictionary_at(context, ("loops",), loops, "Einsums and their loops").items()
    }
    chunked = attempt(problems, partial(_overlap, context, overlap))
    ahead = attempt(problems, partial(_prefetch, context, prefetch)) or ()
    listed = attempt(problems, partial(_list, context, ("turns",), turns, "of einsums and over")) or []
    looped = [attempt(problems, partial(_turns, context, position, one)) for position, one in enumerate(listed)]
    raise_all(problems)
    return Request(
        {tensor: placement for tensor, placement in placed.items() if placement is not None},
        {einsum: axes for einsum, axes in spread.items() if axes is not None},
        chunked or frozenset(),
        tuple(one for one in looped if one is not None),
        ahead,
    )


def _placement(context: Context, tensor: str, value: Any) -> Placement:
    where = ("placements", tensor)
    if tensor not in context.workload.tensors:
        hint = did_you_mean(tensor, context.workload.tensors, listing="tensors")
        raise context.error(where, f"the workload has no tensor {tensor!r}", hint)
    placement = placement_at(context, where, tensor, value)
    if placement.partial:
        _check_partial(context, (*where, PARTIAL), tensor)
    return placement


def placement_at(context: Context, where: Where, tensor: TensorName, value: Any) -> Placement:
    """The placement that stands at `where`, addends of whatever reduction. Raises SpecError."""
    if value in (None, "replicated"):
        return Placement()
    fields = dictionary_at(context, where, value, "ranks and their mesh axes, or the word replicated")
    problems: list[EinmapError] = []
    splits: list[Split] = []
    partial_axes: tuple[AxisName, ...] = ()
    on: MeshPart = ()
    for key, text in fields.items():
        if key == ON and ON.upper() not in context.sizes[tensor]:
            on = attempt(problems, partial(_part_of_mesh, context, (*where, key), text)) or ()
        elif key == PARTIAL:
            partial_axes = attempt(problems, partial(axes_at, context, (*where, key), text)) or ()
        elif (split := attempt(problems, partial(_split, context, (*where, key), tensor, text))) is not None:
            splits.append(split)
    raise_all(problems)
    ranks = [split.rank for split in splits]
    if len(ranks) != len(set(ranks)):
        raise context.error(where, f"a rank of {tensor!r} is placed twice: {', '.join(fields)}")
    _check_once(
        context, where, [axis for split in splits for axis in split.axes] + [*partial_axes, *(axis for axis, _ in on)]
    )
    used = [split for split in splits if context.mesh.parts(split.axes) > 1]
    held = tuple((axis, place) for axis, place in on if context.mesh.size(axis) > 1)
    splits = [_without_ones(context.mesh, split) for split in used]
    return Placement(tuple(splits), _real(context.mesh, partial_axes), on=held)


def _part_of_mesh(context: Context, where: Where, value: Any) -> MeshPart:
    """`{y: 0}`: the position along each axis of the PEs that hold a tensor. Raises SpecError."""
    fields = dictionary_at(context, where, value, "mesh axes and one position along each, such as {y: 0}")
    for axis, place in fields.items():
        axes_at(context, (*where, axis), axis)
        size = context.mesh.size(axis)
        if type(place) is not int or not 0 <= place < size:
            text = f"the position along {axis!r} must be a whole number from 0 to {size - 1}, found {short(place)}"
            raise context.error((*where, axis), text)
    return tuple(fields.items())


def _check_partial(context: Context, where: Where, tensor: str) -> None:
    if tensor in graph_inputs(context.workload):
        return
    reduction = context.workload.find(context.workload.producers[tensor]).operation.reduction
    if reduction != "sum":
        raise context.error(where, f"{tensor!r} is a {reduction}: only sums can be asked for in parts")


_SPLIT = ("axes", "granule", "block", "halo")


def _split(context: Context, where: Where, tensor: str, value: Any) -> Split:
    key = str(where[-1])
    sizes = context.sizes[tensor]
    rank = key if key in sizes else key.upper()
    if rank not in sizes:
        hint = did_you_mean(key, [*sizes, PARTIAL, ON], listing="ranks")
        raise context.error(where, f"tensor {tensor!r} has no rank {key!r}", hint)
    granule: Any = 1
    block: Any = None
    halo: Any = 0
    if isinstance(value, Mapping):
        unknown = [name for name in value if name not in _SPLIT]
        if unknown or "axes" not in value or {"granule", "block"} <= set(value):
            wrong = did_you_mean(str(unknown[0]), _SPLIT, listing="fields") if unknown else None
            text = f"expected axes and perhaps granule or block, and halo, found {', '.join(map(str, value))}"
            raise context.error(where, text, wrong)
        granule, block, halo = value.get("granule", 1), value.get("block"), value.get("halo", 0)
        value = value["axes"]
    if type(halo) is not int or not 0 <= halo < sizes[rank]:
        raise context.error(where, f"halo must be a whole number from 0 to {sizes[rank] - 1}, found {short(halo)}")
    if halo and not context.workload.consumers[tensor]:
        raise context.error(where, f"no Einsum reads {tensor!r}: it has no halo")
    if type(granule) is not int or not 1 <= granule <= sizes[rank]:
        raise context.error(where, f"granule must be a whole number from 1 to {sizes[rank]}, found {short(granule)}")
    if sizes[rank] % granule:
        raise context.error(where, f"rank {rank} of {tensor!r} has {sizes[rank]} coordinates, no multiple of {granule}")
    axes = axes_at(context, where, value)
    parts = context.mesh.parts(axes)
    whole = sizes[rank] % (parts * granule) == 0
    if block is not None:
        check_block(context, where, block, sizes[rank] - halo, parts)
        whole = block * parts == sizes[rank]
    if not context.imperfect and not whole:
        text = f"rank {rank} of {tensor!r} has {sizes[rank]} coordinates, which do not divide into {parts} equal blocks"
        text += f" of whole granules of {granule}" if granule > 1 else f" of {block}" if block is not None else ""
        raise context.error(where, text, "choose another mesh, or let `imperfect` be true")
    return Split(rank, axes, block_of(sizes[rank], parts, granule) if block is None else block, halo)


def check_block(context: Context, where: Where, block: Any, size: int, parts: int) -> None:
    """Raise SpecError where blocks of `block` coordinates on `parts` PEs do not cover `size`."""
    least = block_of(size, parts)
    # blocks that all other PEs had, most of them perhaps empty, put together
    most = size * (context.mesh.n_devices // parts)
    if type(block) is not int or not least <= block <= most:
        text = (
            f"block must be a whole number from {least} to {most}, so that {parts} PEs hold all; found {short(block)}"
        )
        raise context.error(where, text)


def _loops(context: Context, einsum: str, value: Any) -> dict[RankVar, tuple[AxisName, ...]]:
    where = ("loops", einsum)
    if einsum not in context.workload.by_name:
        hint = did_you_mean(einsum, context.workload.by_name, listing="Einsums")
        raise context.error(where, f"the workload has no Einsum {einsum!r}", hint)
    bound = context.workload.find(einsum)
    problems: list[EinmapError] = []
    axes_of = {
        variable: attempt(problems, partial(_loop, context, (*where, variable), bound, axes)) or ()
        for variable, axes in dictionary_at(context, where, value, "rank variables and their mesh axes").items()
    }
    raise_all(problems)
    _check_once(context, where, [axis for axes in axes_of.values() for axis in axes])
    real = {variable: _real(context.mesh, axes) for variable, axes in axes_of.items()}
    return {variable: axes for variable, axes in real.items() if axes}


def _loop(context: Context, where: Where, einsum: Einsum, value: Any) -> tuple[AxisName, ...]:
    axes = loop_axes_at(context, where, einsum, value)
    variable = str(where[-1])
    parts, extent = context.mesh.parts(axes), einsum.extents[variable]
    if not context.imperfect and extent % parts:
        text = f"rank variable {variable!r} of {einsum.name!r} has {extent} values, which do not divide into {parts}"
        raise context.error(where, text, "choose another mesh, or let `imperfect` be true")
    return axes


def loop_axes_at(context: Context, where: Where, einsum: Einsum, value: Any) -> tuple[AxisName, ...]:
    """The axes that a rank variable, the last of `where`, is split over. Raises SpecError."""
    variable = str(where[-1])
    if variable not in einsum.extents:
        hint = did_you_mean(variable, einsum.rank_variables, listing="rank variables")
        raise context.error(where, f"Einsum {einsum.name!r} has no rank variable {variable!r}", hint)
    if dict(einsum.first_values).get(variable, 0):
        text = f"rank variable {variable!r} of {einsum.name!r} does not start at 0; it cannot be split"
        raise context.error(where, text)
    return axes_at(context, where, value)


def _overlap(context: Context, value: Any) -> frozenset[str]:
    return frozenset(_einsums(context, ("overlap",), value))


def _prefetch(context: Context, value: Any) -> tuple[tuple[TensorName, str], ...]:
    problems: list[EinmapError] = []
    asked = dictionary_at(context, ("prefetch",), value, "tensors and the Einsums that run meanwhile")
    for tensor, einsum in asked.items():
        where = ("prefetch", tensor)
        if tensor not in context.workload.tensors:
            hint = did_you_mean(tensor, context.workload.tensors, listing="tensors")
            problems.append(context.error(where, f"the workload has no tensor {tensor!r}", hint))
        if not isinstance(einsum, str) or einsum not in context.workload.by_name:
            hint = did_you_mean(str(einsum), context.workload.by_name, listing="Einsums")
            problems.append(context.error(where, f"the workload has no Einsum {short(einsum)}", hint))
    raise_all(problems)
    return tuple(asked.items())


def _turns(context: Context, position: int, value: Any) -> Turns | None:
    """One entry of `turns`; None where there is one PE along its axes, so that nothing travels."""
    where = ("turns", position)
    fields = dictionary_at(context, where, value, "einsums and over")
    known = ("einsums", "over", "panels")
    unknown = [name for name in fields if name not in known]
    if unknown or not {"einsums", "over"} <= set(fields):
        wrong = did_you_mean(unknown[0], known, listing="fields") if unknown else None
        text = f"expected einsums and over, and perhaps panels, found {', '.join(fields) or 'nothing'}"
        raise context.error(where, text, wrong)
    panels = fields.get("panels")
    if panels is not None and (type(panels) is not int or panels < 2):
        text = f"expected a number of panels from 2 on, found {short(panels)}"
        raise context.error((*where, "panels"), text, "write for example panels: 4")
    names = _einsums(context, (*where, "einsums"), fields["einsums"])
    if not names:
        raise context.error((*where, "einsums"), "expected at least one Einsum")
    over = dictionary_at(context, (*where, "over"), fields["over"], "one rank variable and its mesh axes")
    if len(over) != 1:
        raise context.error((*where, "over"), f"expected one rank variable, found {', '.join(over) or 'none'}")
    ((variable, axes),) = over.items()
    found = loop_axes_at(context, (*where, "over", variable), context.workload.find(names[0]), axes)
    real = _real(context.mesh, found)
    return Turns(tuple(names), variable, real, panels) if real else None


def _einsums(context: Context, where: Where, value: Any) -> list[str]:
    names = _list(context, where, value, "of Einsums")
    problems: list[EinmapError] = []
    for number, name in enumerate(names):
        if not isinstance(name, str) or name not in context.workload.by_name:
            hint = did_you_mean(str(name), context.workload.by_name, listing="Einsums")
            problems.append(context.error((*where, number), f"the workload has no Einsum {short(name)}", hint))
        elif name in names[:number]:
            problems.append(context.error((*where, number), f"Einsum {name!r} is named twice", "name it once"))
    raise_all(problems)
    return names


def _list(context: Context, where: Where, value: Any, of: str) -> list[Any]:
    if value is not None and (isinstance(value, str | Mapping) or not isinstance(value, Iterable)):
        raise context.error(where, f"expected a list {of}, found {short(value)}")
    return list(value or ())


def axes_at(context: Context, where: Where, value: Any) -> tuple[AxisName, ...]:
    """`x` or `[x, y]`: known axes, each once. Raises SpecError."""
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not names:
        raise context.error(
            where, f"expected a mesh axis or a list of them, found {short(value)}", "write for example x"
        )
    problems: list[EinmapError] = []
    for number, name in enumerate(names):
        if name not in context.mesh.names:
            hint = did_you_mean(str(name), context.mesh.names, listing="axes")
            at = where if isinstance(value, str) else (*where, number)
            problems.append(context.error(at, f"the mesh has no axis {short(name)}", hint))
    raise_all(problems)
    _check_once(context, where, names)
    return tuple(names)


def _check_once(context: Context, where: Where, axes: Iterable[AxisName]) -> None:
    axes = list(axes)
    for axis in axes:
        if axes.count(axis) > 1:
            what = f"the {where[0]} of {where[1]!r}" if len(where) > 1 else f"the {where[0]}"
            text = f"mesh axis {axis!r} is used twice in {'a step' if where[0] == 'steps' else what}"
            raise context.error(where, text, "split over different axes, or over one of them only")


def dictionary_at(context: Context, where: Where, value: Any, expected: str) -> dict[str, Any]:
    """A dictionary with texts as keys, empty where there is none. Raises SpecError."""
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise context.error(where, f"expected a dictionary of {expected}, found {short(value)}")
    return dict(value)


def _real(mesh: Mesh, axes: tuple[AxisName, ...]) -> tuple[AxisName, ...]:
    """Axes along which there is more than one PE."""
    return tuple(axis for axis in axes if mesh.size(axis) > 1)


def _without_ones(mesh: Mesh, split: Split) -> Split:
    return replace(split, axes=_real(mesh, split.axes))
