"""Constraints of the hardware on mappings, as data."""

from __future__ import annotations

import operator
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from itertools import pairwise
from typing import Any

from einmap.errors import At, ExpressionError, SpecError
from einmap.expressions.arithmetic import tensor_set
from einmap.expressions.records import Record
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.visible import brief

type Names = frozenset[str]

_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "<=": operator.le,
    ">=": operator.ge,
    "<": operator.lt,
    ">": operator.gt,
    "multiple_of": lambda number, value: number % value == 0,
}
_OF_LIST = "one_of"
OPERATORS = (
    *_COMPARE,
    _OF_LIST,
    *(f"product{name}" for name in _COMPARE if not name.isidentifier()),
    "product_multiple_of",
    "product_one_of",
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """A limit on loop counts or tile shapes of `variables`, e.g. `product<= 16` over {m, n}.

    `values`: what is allowed where the operator is `one_of` or `product_one_of`; `value` is then the first of them.
    """

    variables: Names
    operator: str
    value: int
    text: str = ""
    values: tuple[int, ...] = ()

    @property
    def comparison(self) -> str:
        """The operator, whatever it is applied to: `<=` of `<=` and of `product<=`."""
        return self.operator.removeprefix("product").removeprefix("_")

    @property
    def is_product(self) -> bool:
        """Whether the product of the numbers is limited, and not each of them."""
        return self.operator.startswith("product")

    def holds(self, values: Mapping[str, float], missing: float = 1) -> bool:
        """`values`: the number of each rank variable; absent ones count as `missing`."""
        return bool(self.holds_each(values, missing))

    def holds_each(self, values: Mapping[str, Any], missing: float = 1) -> Any:
        """Whether the limit holds, element by element where `values` are arrays of numbers of one shape."""
        numbers = [values.get(v, missing) for v in sorted(self.variables)]
        if self.is_product:
            return self._allows(reduce(operator.mul, numbers, 1)) if numbers else True
        return reduce(operator.and_, map(self._allows, numbers), True)

    def _allows(self, number: Any) -> Any:
        """Whether the limit admits a number, or each one of an array."""
        if self.comparison == _OF_LIST:
            return reduce(operator.or_, (number == value for value in self.values))
        return _COMPARE[self.comparison](number, self.value)


@dataclass(frozen=True)
class DeferredSet:
    """A set of tensors that may depend on what memories above keep: `~MainMemory`, `All - Above`."""

    __repr__ = brief

    source: object
    scope: Scope
    universe: NameSet
    at: At | None = None
    _resolved: dict[object, Names] = field(default_factory=dict, init=False, compare=False, repr=False)

    def given(self, held: Mapping[str, Names]) -> Names:
        """The set when the components above hold `held`. Raises ExpressionError."""
        # Only what the text names can change the value, so nothing else is part of the key: while dataplacements are
        # listed, most of what is held above changes without any effect on this set.
        text = self._text
        above = frozenset().union(*held.values()) if "Above" in text else None
        key = above, tuple([pair for pair in held.items() if pair[0] in text])
        if key not in self._resolved:
            self._resolved[key] = self._evaluate(held)
        return self._resolved[key]

    @cached_property
    def _text(self) -> str:
        """The written text, and the text as Python reads it: every name that is asked for occurs here."""
        text = str(self.source)
        return f"{text} {unicodedata.normalize('NFKC', text)}"

    def _evaluate(self, held: Mapping[str, Names]) -> Names:
        above = frozenset().union(*held.values())
        names: dict[str, object] = {"Above": self.universe.with_members(above & self.universe.members)}
        for component, tensors in held.items():
            if component not in self._text:
                continue  # there may be a thousand others
            record = self.scope.get(component)
            if isinstance(record, Record):  # otherwise a set, tensor or rank variable of that name, which wins
                names[component] = replace(self.universe.with_members(tensors & self.universe.members), holder=record)
        return tensor_set(self.source, self.scope.layer(names), at=self.at).members

    def adjusted(self, less: Names = frozenset(), more: Names = frozenset()) -> AdjustedSet:
        """This set without some tensors, or with some more."""
        return AdjustedSet(self.source, self.scope, self.universe, self.at, less=less, more=more)


@dataclass(frozen=True)
class AdjustedSet(DeferredSet):
    """A set without some tensors and with some more, whatever it is before that."""

    __repr__ = brief

    less: Names = frozenset()
    more: Names = frozenset()

    def given(self, held: Mapping[str, Names]) -> Names:
        """The set when the components above hold `held`. Raises ExpressionError."""
        return (super().given(held) - self.less) | self.more

    def adjusted(self, less: Names = frozenset(), more: Names = frozenset()) -> AdjustedSet:
        """This set without some tensors, or with some more."""
        return super().adjusted((self.less - more) | less, (self.more - less) | more)


@dataclass(frozen=True)
class Placement:
    """Which tensors a holder keeps, and in which shape and order (the field `tensors`)."""

    __repr__ = brief

    keep: DeferredSet
    may_keep: DeferredSet
    back: DeferredSet
    no_refetch_from_above: DeferredSet
    no_resend_to_below: DeferredSet
    tile_shape: tuple[Comparison, ...] = ()
    order_options: tuple[tuple[DeferredSet, ...], ...] = field(default=())
    force_hierarchy_order: bool = True

    @cached_property
    def never_closed(self) -> bool:
        """Whether it is plain that all tensors may come in, and go down, again and again, whatever is held above."""
        moved = self.no_refetch_from_above, self.no_resend_to_below
        return all(each.source in ("~All", "Nothing") and not each.given({}) for each in moved)

    def choices(self, held: Mapping[str, Names]) -> tuple[Names, Names]:
        """Tensors that must and those that may be kept here, given what is held above; the two are disjoint."""
        must = self.keep.given(held) | self.back.given(held)
        return must, self.may_keep.given(held) - must

    def order_allows(self, position: Mapping[str, int], held: Mapping[str, Names]) -> bool:
        """Whether at least one option admits this order of the tensors kept here.

        `position`: place of each tensor's storage node from the outside in; tensors of one node have the same place
        and satisfy either order.
        """
        return not self.order_options or any(
            _in_order(_disjoint(option, held), position) for option in self.order_options
        )


def _disjoint(option: tuple[DeferredSet, ...], held: Mapping[str, Names]) -> list[Names]:
    """The sets of one order option. Raises SpecError when they overlap."""
    groups = [group.given(held) for group in option]
    for i, group in enumerate(groups):
        for other in groups[:i]:
            if group & other:
                shared = ", ".join(sorted(group & other))
                raise SpecError(f"sets of tensor_order_options overlap on {{{shared}}}", at=option[i].at)
    return groups


def check_order_options(placement: Placement) -> None:
    """Raise SpecError for options whose sets overlap, as far as nothing above needs to be known."""
    for option in placement.order_options:
        try:
            _disjoint(option, {})
        except ExpressionError:
            continue


def _in_order(groups: list[Names], position: Mapping[str, int]) -> bool:
    present = [[position[t] for t in group if t in position] for group in groups]
    filled = [places for places in present if places]
    return all(max(outer) <= min(inner) for outer, inner in pairwise(filled))


@dataclass(frozen=True)
class Latency:
    """A user's `total_latency` expression and the names it may use besides the action counts."""

    __repr__ = brief

    source: object
    scope: Scope
    at: At | None = None

    @cached_property
    def text(self) -> str:
        """As written."""
        return str(self.source)
