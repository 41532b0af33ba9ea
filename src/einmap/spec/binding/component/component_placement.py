"""Which tensors a memory or toll holds, and in which direction they pay: sets that a mapping decides."""

from __future__ import annotations

from typing import cast

from einmap.arch.component import Direction
from einmap.arch.constraint import OPERATORS, Comparison, DeferredSet, Placement, check_order_options
from einmap.errors import ExpressionError, SpecError, did_you_mean
from einmap.expressions.arithmetic import number, rank_variable_set
from einmap.expressions.scope import Scope
from einmap.spec.binding.component.component_context import ComponentContext, Where
from einmap.spec.binding.symbols import union_text
from einmap.spec.raw import Path
from einmap.spec.schema.arch import TollInput
from einmap.spec.schema.placement import ComparisonInput, TensorsInput

_DIRECTIONS = ("up", "down", "up_and_down")


def direction_of(context: ComponentContext, given: TollInput) -> tuple[tuple[str, Direction], ...]:
    """In which direction each tensor pays a toll. Raises SpecError for unknown directions and tensors left out."""
    entries = given.direction if isinstance(given.direction, dict) else {"All": given.direction}
    for key, value in entries.items():
        if value not in _DIRECTIONS:
            at = context.at("direction", key) if isinstance(given.direction, dict) else context.at("direction")
            raise SpecError(
                f"unknown direction {value!r}",
                at=at,
                hint=did_you_mean(value, _DIRECTIONS, listing="directions"),
            )
    table = context.table(entries, context.scope, "direction")
    missing = sorted(context.all.universe - table.keys())
    if missing:
        raise SpecError(
            f"direction of Toll {given.name!r} says nothing of {{{', '.join(missing)}}} (Einsum {context.einsum!r})",
            at=context.at("direction"),
            hint="use the key Other for the rest",
        )
    return tuple((tensor, cast(Direction, table[tensor][0])) for tensor in sorted(table))


def placement_of(context: ComponentContext, given: TensorsInput) -> Placement:
    """Which tensors a memory or toll holds, decided once a mapping is known. Raises SpecError."""

    def deferred(field: str, source: object, *path: int) -> DeferredSet:
        return DeferredSet(union_text(source), context.scope, context.all, context.at("tensors", field, *path))

    keep: object = "Nothing" if given.keep is None else given.keep
    default = "All" if given.keep is None else "Nothing"
    may_keep = given.may_keep if given.may_keep is not None else default
    options = tuple(
        tuple(deferred("tensor_order_options", group, i, j) for j, group in enumerate(option))
        for i, option in enumerate(given.tensor_order_options)
    )
    placement = Placement(
        deferred("keep", keep),
        deferred("may_keep", may_keep),
        deferred("back", given.back),
        deferred("no_refetch_from_above", given.no_refetch_from_above),
        deferred("no_resend_to_below", given.no_resend_to_below),
        tuple(_comparison(context, c, i) for i, c in enumerate(given.tile_shape)),
        options,
        given.force_memory_hierarchy_order,
    )
    check_order_options(placement)
    return placement


def refuse_back(context: ComponentContext, placement: Placement) -> None:
    """A tensor whose outermost copy is here must be held here, and a Toll holds nothing."""
    try:
        is_empty = not placement.back.given({})
    except ExpressionError:
        is_empty = False
    if not is_empty:
        raise SpecError(
            f"back of {context.name!r}: a Toll cannot be the outermost holder of a tensor",
            at=context.at("tensors", "back"),
            hint="leave out back, and name the tensors in back of a Memory",
        )


def _comparison(context: ComponentContext, given: ComparisonInput, index: int) -> Comparison:
    return bind_comparison(given, context.where, (*context.path, "tensors", "tile_shape", index), context.scope)


def bind_comparison(given: ComparisonInput, where: Where, path: Path, scope: Scope) -> Comparison:
    """A limit on rank variables. Raises SpecError for unknown operators, sets and values."""
    if given.operator not in OPERATORS:
        at = where((*path, "operator"))
        raise SpecError(f"unknown operator {given.operator!r}", at=at, hint=f"one of {', '.join(OPERATORS)}")
    variables = rank_variable_set(given.expression, scope, at=where((*path, "expression")))
    comparison = Comparison(variables.members, given.operator, 0).comparison
    at = where((*path, "value"))
    if isinstance(given.value, list) != (comparison == "one_of"):
        found = "a list" if isinstance(given.value, list) else f"{given.value!r}"
        wanted = "a list of integers, such as [1, 2, 4]" if comparison == "one_of" else "one integer"
        raise SpecError(f"the value of {given.operator!r} must be {wanted}, found {found}", at=at)
    written = given.value if isinstance(given.value, list) else [given.value]
    if not written:
        raise SpecError(f"the value of {given.operator!r} is an empty list, so that nothing is allowed", at=at)
    least = 1 if comparison == "multiple_of" else None
    values = tuple(int(number(v, scope, at=at, what="value", integer=True, minimum=least)) for v in written)
    shown = ", ".join(map(str, values))
    text = f"{union_text(given.expression)} {given.operator} {f'[{shown}]' if comparison == 'one_of' else shown}"
    return Comparison(variables.members, given.operator, values[0], text, values if comparison == "one_of" else ())
