"""A plan as Einsums: what each PE computes and what it exchanges.

PEs are told by their coordinates on the mesh, which come first in the brackets: `ZL[x, m, n] = AD[x, k0, m] * BD[x, k0,
n]` with `k = x*16 + k0`. A prime marks the coordinate of another PE: `ZD[x, m0, n] = ZL[x', m, n]`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

from einmap.distribute.hops.pairs import fetched_by, only_halo_is_cut
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Split
from einmap.distribute.plans.cuts import cut_groups
from einmap.distribute.plans.plan import (
    Buffer,
    Combine,
    Fill,
    Local,
    LocalLoop,
    Move,
    Plan,
    PlanStep,
    Put,
    Repeat,
    Turn,
)
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, format_map
from einmap.einsum.spaces.projection import Affine, Rank


@dataclass(frozen=True, slots=True)
class Line:
    """One step: the Einsum, what it is (`local`, `all-gather over x`), and which index is which; `depth` of loops."""

    einsum: str
    what: str
    where: str = ""
    depth: int = 0


def lines(plan: Plan) -> tuple[Line, ...]:
    """Inputs dealt, all steps, outputs collected."""
    dealt = [_dealt(plan, plan.by_name[name]) for _, name in plan.inputs]
    outputs = [_collected(plan, plan.by_name[name]) for _, name in plan.outputs]
    return (*dealt, *_steps(plan, plan.steps, 0), *outputs)


def _steps(plan: Plan, steps: Sequence[PlanStep], depth: int) -> Iterator[Line]:
    for step in steps:
        match step:
            case Local():
                yield _local(plan, step, depth)
            case Move():
                yield _move(plan, step, depth)
            case Combine(left, right, target):
                names = [_bracketed(plan, plan.by_name[name]) for name in (target, left, right)]
                joined = f"{names[1]} + {names[2]}"
                if step.reduction != "sum":
                    joined = f"{step.reduction}({names[1]}, {names[2]})"
                yield Line(f"{names[0]} = {joined}", "local", "", depth)
            case Fill(target, reduction):
                value = {"sum": "0", "max": "lowest", "min": "highest", None: "empty"}[reduction]
                yield Line(f"{_bracketed(plan, plan.by_name[target])} = {value}", "local", "", depth)
            case Put():
                yield _put(plan, step, depth)
            case Repeat():
                turns = f"for t = 0 .. {step.count - 1}"
                yield Line(turns, "loop", "", depth)
                for start, read, _ in step.carried:
                    if start != read:
                        target, source = (_bracketed(plan, plan.by_name[name]) for name in (read, start))
                        yield Line(f"{target} = {source}", "local", "in the first turn", depth + 1)
                yield from _steps(plan, step.steps, depth + 1)
                for _, read, written in step.carried:
                    target, source = (_bracketed(plan, plan.by_name[name]) for name in (read, written))
                    yield Line(f"{target} = {source}", "local", "for the next turn", depth + 1)
            case _:
                assert_never(step)


def _dealt(plan: Plan, buffer: Buffer) -> Line:
    where = [_held(plan.mesh, split, size) for split, size in _splits(buffer)]
    if buffer.placement.partial:
        where.append(f"addends over {', '.join(buffer.placement.partial)}")
    whole = f"{buffer.tensor}[{', '.join(rank.lower() for rank in buffer.ranks)}]"
    if not buffer.placement.used:
        return Line(whole, "on every PE")
    return Line(f"{_bracketed(plan, buffer)} = {whole}", "distribute", ", ".join(where))


def _collected(plan: Plan, buffer: Buffer) -> Line:
    whole = f"{buffer.tensor}[{', '.join(rank.lower() for rank in buffer.ranks)}]"
    if not buffer.placement.used and buffer.name == buffer.tensor:
        return Line(whole, "on every PE")
    where = [_held(plan.mesh, split, size) for split, size in _splits(buffer)]
    where += [f"sum over {axis}" for axis in buffer.placement.partial]
    what = "collect" if buffer.placement.used else "on every PE"
    return Line(f"{whole} = {_bracketed(plan, buffer)}", what, ", ".join(where))


def _splits(buffer: Buffer) -> list[tuple[Split, int]]:
    sizes = dict(buffer.sizes)
    return [(split, sizes[split.rank]) for split in buffer.placement.splits]


# names and indices


def _bracketed(plan: Plan, buffer: Buffer, marked: Sequence[AxisName] = (), mark: str = "'") -> str:
    """`AD[x, k0, m]`; coordinates on the axes `marked` are followed by `mark`."""
    ranks = [f"{rank.lower()}0" if buffer.placement.of(rank) else rank.lower() for rank in buffer.ranks]
    return f"{buffer.name}[{', '.join((*_coordinates(plan, buffer, marked, mark), *ranks))}]"


def _coordinates(plan: Plan, buffer: Buffer, marked: Sequence[AxisName] = (), mark: str = "'") -> list[str]:
    used, on = buffer.placement.used, dict(buffer.placement.on)
    return [
        f"{axis}={on[axis]}" if axis in on else axis + (mark if axis in marked else "")
        for axis in plan.mesh.names
        if axis in used
    ]


def _position(mesh: Mesh, axes: Sequence[AxisName], mark: str = "", marked: Sequence[AxisName] | None = None) -> str:
    """`x`, or `x*4 + y` where the axis y has 4 PEs; `mark` follows the axes `marked`, without them all."""
    text = ""
    for axis in axes:
        name = axis + mark if marked is None or axis in marked else axis
        text = f"{_factor(text)}*{mesh.size(axis)} + {name}" if text else name
    return text


def _factor(text: str) -> str:
    return f"({text})" if " " in text else text


def _held(mesh: Mesh, split: Split, size: int) -> str:
    """`k = x*16 + k0`, with the end of the rank where the last block is short, and that of the block with a halo."""
    text = _part(mesh, split.axes, split.block, split.rank, size)
    return text + (f", {split.rank.lower()}0 < {split.room}" if split.halo else "")


def _part(mesh: Mesh, axes: Sequence[AxisName], block: int, rank: Rank, size: int, mark: str = "") -> str:
    """`k = x*16 + k0`, with the end of the rank where the last block is short."""
    name = rank.lower()
    position = _factor(_position(mesh, axes, mark))
    start = position if block == 1 else f"{position}*{block}"
    text = f"{name} = {start} + {name}0"
    return text + (f" < {size}" if block * mesh.parts(axes) > size else "")


def _turned(mesh: Mesh, turn: Turn, block: int, rank: Rank, size: int) -> str:
    """`k = ((x - t) mod 4)*16 + k0`: the block that a PE takes in a turn."""
    text = _number(mesh, turn)
    start = _factor(text) if block == 1 else f"{_factor(text)}*{block}"
    name = rank.lower()
    if turn.pieces > 1:
        return f"{name}: block {text} of {turn.count} of each of {turn.pieces} pieces"
    return f"{name} = {start} + {name}0" + (f" < {size}" if block * turn.count > size else "")


def _number(mesh: Mesh, turn: Turn) -> str:
    """`(x - t) mod 4`: the number of the block that a PE takes in a turn."""
    places = [_factor(_position(mesh, axes)) for axes in turn.over]
    text = " + ".join(places)
    for amount, what in ((turn.offset, ""), (turn.stride, "t")):
        if amount:
            factor = "" if what and abs(amount) == 1 else f"{abs(amount)}{'*' if what else ''}"
            text += f" {'-' if amount < 0 else '+'} {factor}{what}"
    text = text.removeprefix(" + ") or "0"
    return f"({text}) mod {turn.count}" if turn.over else text


# local Einsums


def _local(plan: Plan, step: Local, depth: int) -> Line:
    einsum = plan.einsum(step.einsum)
    loops = {loop.variable: loop for loop in step.loops}
    texts = {
        tensor: _access(plan, einsum.by_tensor[tensor], plan.by_name[name], loops)
        for tensor, name in (*step.operands, *step.results)
    }
    right = texts[min(einsum.inputs)] if einsum.is_copy else _operation(einsum, texts)
    left = ", ".join(texts[tensor] for tensor, _ in step.results)
    cutting = {variable for group in cut_groups(einsum) for variable in group.variables} if einsum.cuts else set()
    where = [_turned(plan.mesh, one.turn, one.block, one.variable, one.extent) for one in step.loops if one.turn]
    where += [
        _part(plan.mesh, loop.axes, loop.block, loop.variable, loop.extent)
        for loop in step.loops
        if loop.axes
        and not loop.turn
        and (
            loop.variable in cutting
            or any(_is_whole(plan, einsum, loop, pair) for pair in (*step.operands, *step.results))
        )
    ]
    where += einsum.cuts
    reduced = [v for v in einsum.rank_variables if any(v not in a.variables for a in einsum.accesses if a.output)]
    if einsum.operation.reduction != "sum" and reduced:
        where.append(f"{einsum.operation.reduction} over {', '.join(reduced)}")
    return Line(f"{left} = {right}", "local", ", ".join(where), depth)


def _is_whole(plan: Plan, einsum: Einsum, loop: LocalLoop, pair: tuple[str, str]) -> bool:
    """Whether a split variable indexes a rank of which the PE has all: then its value on the whole rank is written."""
    tensor, name = pair
    placement = plan.by_name[name].placement
    return any(
        placement.of(rank) is None and any(variable == loop.variable for variable, _ in index.terms)
        for rank, index in einsum.by_tensor[tensor].projection
    )


def _access(plan: Plan, access: TensorAccess, buffer: Buffer, loops: dict[str, LocalLoop]) -> str:
    """The buffer with the indices of the Einsum; those of ranks that are not split count from the tensor's start."""
    indices = []
    for rank, index in access.projection:
        is_local = buffer.placement.of(rank) is not None
        terms = []
        for variable, a in index.terms:
            loop = loops[variable]
            name = f"{variable}0" if loop.is_split and is_local else variable
            terms.append((name, a))
        indices.append(str(Affine(tuple(terms), index.constant)))
    return f"{buffer.name}[{', '.join((*_coordinates(plan, buffer), *indices))}]"


def _operation(einsum: Einsum, texts: dict[str, str]) -> str:
    expression = einsum.operation.map
    assert expression is not None
    return format_map(_renamed(expression, texts))


def _renamed(expression: MapExpression, texts: dict[str, str]) -> MapExpression:
    match expression:
        case Operand(tensor):
            return Operand(texts[tensor])
        case Number():
            return expression
        case Apply(function, arguments):
            return Apply(function, tuple(_renamed(argument, texts) for argument in arguments))


def _put(plan: Plan, step: Put, depth: int) -> Line:
    part, whole, target = (plan.by_name[name] for name in (step.part, step.whole, step.target))
    split = part.placement.of(step.rank)
    assert split is not None
    where = _turned(plan.mesh, step.turn, split.block, step.rank, dict(target.sizes)[step.rank])
    text = f"{_bracketed(plan, target)} = {_bracketed(plan, part)}"
    return Line(text, "local", f"{where}, elsewhere {whole.name}", depth)


# moves


def _move(plan: Plan, step: Move, depth: int) -> Line:
    source, target = plan.by_name[step.source], plan.by_name[step.target]
    marked, mark = (step.axes, "'") if step.kind not in ("slice", "shift", "halo") else ((), "")
    if step.kind == "shift" and step.skew:
        return _skewed(plan, step, source, target, depth)
    if step.kind == "shift":
        marked, mark = step.axes, f" {'+' if step.offset < 0 else '-'} {abs(step.offset)}"
    what = "cut" if step.kind == "slice" else f"{step.kind.replace('_', '-')} over {', '.join(step.axes)}"
    where = []
    if step.kind == "shift":
        where.append(f"{step.axes[0]} modulo {plan.mesh.parts(step.axes)}")
    if step.kind in ("all_reduce", "reduce_scatter", "reduce"):
        where.append(f"{step.reduction} over {', '.join(axis + "'" for axis in step.axes)}")
    if step.kind == "halo":
        _, count = fetched_by(plan, step)
        following = f"{step.axes[0]} + 1" if len(step.axes) == 1 else f"the next PE along {', '.join(step.axes)}"
        where.append(f"{count:,} more of {(step.gather or '').lower()} from {following}")
    elif step.kind == "permute":
        where += _sources(plan, source, target, step)
    elif step.gather:
        where.append(_joined(plan, source, target, step))
    if step.scatter:
        where.append(_cut(plan, source, target, step))
    if step.after is not None:
        where.append(f"after {step.after}")
    text = f"{_bracketed(plan, target)} = {_bracketed(plan, source, marked, mark)}"
    return Line(text, what, ", ".join(where), depth)


def _skewed(plan: Plan, step: Move, source: Buffer, target: Buffer, depth: int) -> Line:
    """`AH[x, y, ...] = AD[x, y + x, ...]`: a shift by the position over other axes."""
    sign, factor = "+" if step.offset < 0 else "-", abs(step.offset)
    skew = _position(plan.mesh, step.skew)
    mark = f" {sign} {skew if factor == 1 else f'{factor}*{_factor(skew)}'}"
    text = f"{_bracketed(plan, target)} = {_bracketed(plan, source, step.along, mark)}"
    where = f"{_position(plan.mesh, step.along)} modulo {plan.mesh.parts(step.along)}"
    return Line(text, f"shift over {', '.join(step.along)}", where, depth)


def _sources(plan: Plan, source: Buffer, target: Buffer, step: Move) -> list[str]:
    """`x'*4 + y' = y*4 + x`: which PEs have the block of a PE, for each rank that other axes split."""
    made = []
    for split in target.placement.splits:
        before = source.placement.of(split.rank)
        assert before is not None
        if before != split:
            theirs = _position(plan.mesh, before.axes, "'", step.axes)
            made.append(f"{theirs} = {_position(plan.mesh, split.axes)}")
    return made


def _joined(plan: Plan, source: Buffer, target: Buffer, step: Move) -> str:
    rank = step.gather or ""
    split = source.placement.of(rank)
    assert split is not None
    if target.placement.of(rank):
        return f"blocks of {split.block} of {rank} joined"
    return _part(plan.mesh, split.axes, split.block, rank, dict(source.sizes)[rank], "'")


def _cut(plan: Plan, source: Buffer, target: Buffer, step: Move) -> str:
    rank = step.scatter or ""
    split = target.placement.of(rank)
    assert split is not None
    if step.turn and source.placement.of(rank):
        pieces = f" of each of {step.turn.pieces} pieces" if step.turn.pieces > 1 else ""
        return f"block {_number(plan.mesh, step.turn)} of {step.turn.count}{pieces} of its {rank}"
    if step.turn:
        return _turned(plan.mesh, step.turn, split.block, rank, dict(source.sizes)[rank])
    if only_halo_is_cut(plan, step):
        return f"{rank.lower()}0 < {split.room}"
    if source.placement.of(rank):
        return f"{rank} cut in blocks of {split.block}"
    return _held(plan.mesh, split, dict(source.sizes)[rank])
