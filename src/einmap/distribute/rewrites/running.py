"""Einsums in turns that read what is not complete yet: which factor a block or a total so far must still be given.

The softmax of attention reads the largest score and the sum of a row before all blocks were seen. Both are factors:

    SN = exp(QK - GM)            is e to the power QK, times exp(-GM)
    SD = sum of SN               has the same factor, as GM does not depend on what is summed
    AV = sum of SN / SD * V      has the factors exp(-GM) and 1/SD

So SN, SD and AV may be computed with the largest score so far, and totals so far are multiplied by exp(GM before - GM
now) in each turn; what is divided by SD is left undivided until SD is complete. This is the online softmax (Milakov and
Gimelshein, "Online normalizer calculation for softmax", 2018; ring attention: Liu et al., "Ring attention with
blockwise transformers for near-infinite context", 2023), found from the Einsums alone: products and quotients of
factors, sums of terms with equal factors, and exp of what is linear in a total so far; nothing else may read one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from einmap.distribute.rewrites.group import Group, Member
from einmap.einsum.einsum import TensorAccess, TensorName
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.einsum.spaces.projection import Affine, Rank
from einmap.errors import At, SpecError

type Key = tuple[Literal["exp", "power"], TensorName]
type Places = tuple[tuple[Rank, str], ...]
"""For each rank of a tensor the rank variable that indexes it, or the rank of another tensor that goes with it."""


@dataclass(frozen=True, slots=True)
class Amount:
    """How much of a factor there is: `tensor` to the power `value`, or exp(value * tensor); at which `places`."""

    value: float
    places: Places


type Factors = Mapping[Key, Amount]


@dataclass(frozen=True, slots=True)
class Part:
    """The part of an Einsum in a turn: its map without the factors that are given later, and these, by the rank
    variables of the Einsum.
    """

    map: MapExpression
    factors: Factors


class _Refused(Exception):
    """An expression reads a total so far in a way that cannot be made good later."""


@dataclass(frozen=True, slots=True)
class Parts:
    """`of`: what each Einsum of a group computes in a turn, by its name; `factors`: what each result lacks, by rank."""

    of: Mapping[str, Part]
    factors: Mapping[TensorName, Factors]


def parts_of(group: Group, at: At | None) -> Parts:
    """How a group is computed in turns. Raises SpecError, with the reason, where an Einsum reads a total too early."""
    parts: dict[str, Part] = {}
    totals: set[TensorName] = set()
    factors: dict[TensorName, Factors] = {}
    for member in group.members:
        einsum = member.einsum
        whole = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
        assert whole is not None
        try:
            part = _Reader(member, totals, factors).part(whole)
            for tensor, _ in member.step.results:
                factors[tensor] = _by_rank(member, einsum.by_tensor[tensor], part.factors)
        except _Refused as refused:
            raise SpecError(
                f"Einsum {einsum.name!r} cannot run in turns with those before it: {refused}",
                at=at,
                hint="leave it out of the turns",
            ) from None
        parts[einsum.name] = part
        totals |= {tensor for tensor, _ in member.step.results if not member.ranks(tensor)}
    return Parts(parts, factors)


def _by_rank(member: Member, access: TensorAccess, factors: Factors) -> Factors:
    """The factors of a result: rank variables become the ranks that they index."""
    rank_of = {index.terms[0][0]: rank for rank, index in access.projection if _plain(index)}
    if factors and member.einsum.operation.reduction != "sum" and member.variable not in access.variables:
        raise _Refused(f"it takes the {member.einsum.operation.reduction} of what {_text(factors)} still changes")
    made: dict[Key, Amount] = {}
    for key, amount in factors.items():
        if any(variable not in rank_of for _, variable in amount.places):
            raise _Refused(f"{access.tensor!r} is summed over what {_text([key])} depends on")
        made[key] = Amount(amount.value, tuple((rank, rank_of[variable]) for rank, variable in amount.places))
    return made


def _text(keys: Iterable[Key]) -> str:
    return " and ".join(repr(tensor) for _, tensor in keys)


def _keys(parts: Iterable[Part]) -> tuple[Key, ...]:
    return tuple(dict.fromkeys(key for part in parts for key in part.factors))


def _plain(index: Affine) -> bool:
    """Whether the index is a rank variable and nothing else."""
    return not index.constant and [factor for _, factor in index.terms] == [1]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads the map of one Einsum. `totals`: tensors of which there is a total so far; `factors`: of all that the group
    has made, by rank.
    """

    member: Member
    totals: set[TensorName]
    factors: Mapping[TensorName, Factors]

    def part(self, expression: MapExpression) -> Part:
        """The expression without its factors, and these."""
        match expression:
            case Operand(tensor) if tensor in self.totals:
                raise _Refused(f"it reads {tensor!r} before that is complete")
            case Operand(tensor):
                return Part(expression, self._of_operand(tensor))
            case Number():
                return Part(expression, {})
            case Apply("exp", (argument,)) if slopes := self._slopes(argument):
                return Part(expression, {("exp", g): Amount(c, self._places(g)) for g, c in slopes.items() if c})
            case Apply("multiply" | "divide" as function, (left, right)):
                return self._product(function, left, right)
            case Apply(function, arguments):
                return self._sum(function, [self.part(one) for one in arguments])

    def _product(self, function: str, left: MapExpression, right: MapExpression) -> Part:
        sign = -1 if function == "divide" else 1
        if isinstance(right, Operand) and right.tensor in self.totals:
            rest, amount = self.part(left), Amount(sign, self._places(right.tensor))
            return Part(rest.map, _joined(rest.factors, {("power", right.tensor): amount}))
        if isinstance(left, Operand) and left.tensor in self.totals and sign == 1:
            return self._product(function, right, left)
        parts = self.part(left), self.part(right)
        negated = {key: Amount(sign * amount.value, amount.places) for key, amount in parts[1].factors.items()}
        return Part(Apply(function, (parts[0].map, parts[1].map)), _joined(parts[0].factors, negated))

    def _sum(self, function: str, parts: list[Part]) -> Part:
        """Sums and differences keep factors that all terms have; other functions are of values that are complete."""
        factors = parts[0].factors
        if function in ("add", "subtract", "negative"):
            if any(part.factors != factors for part in parts):
                raise _Refused(f"it adds terms with different factors of {_text(_keys(parts))}")
        elif any(part.factors for part in parts):
            raise _Refused(f"it takes {function} of what {_text(_keys(parts))} still changes")
        return Part(Apply(function, tuple(part.map for part in parts)), factors)

    def _slopes(self, expression: MapExpression) -> dict[TensorName, float]:
        """How an expression depends on totals so far, if it is linear in them; empty where it reads none."""
        match expression:
            case Operand(tensor) if tensor in self.totals:
                return {tensor: 1.0}
            case Apply("subtract" | "add" as function, (left, right)):
                sign = -1.0 if function == "subtract" else 1.0
                slopes = dict(self._slopes(left))
                for tensor, slope in self._slopes(right).items():
                    slopes[tensor] = slopes.get(tensor, 0.0) + sign * slope
                return slopes
            case Apply("negative", (argument,)):
                return {tensor: -slope for tensor, slope in self._slopes(argument).items()}
            case Apply("multiply", (Number(factor), argument) | (argument, Number(factor))):
                return {tensor: factor * slope for tensor, slope in self._slopes(argument).items()}
            case Apply("divide", (argument, Number(divisor))) if divisor:
                return {tensor: slope / divisor for tensor, slope in self._slopes(argument).items()}
        if self.part(expression).factors:
            raise _Refused("it takes exp of what still changes")
        return {}

    def _of_operand(self, tensor: TensorName) -> Factors:
        """The factors of an operand: its ranks become the rank variables that index them here."""
        index_of = dict(self.member.einsum.by_tensor[tensor].projection)
        made: dict[Key, Amount] = {}
        for key, amount in self.factors.get(tensor, {}).items():
            if any(not _plain(index_of[rank]) for _, rank in amount.places):
                raise _Refused(f"it reads {tensor!r} at other places than {_text([key])}")
            places = tuple((rank, index_of[other].terms[0][0]) for rank, other in amount.places)
            made[key] = Amount(amount.value, places)
        return made

    def _places(self, tensor: TensorName) -> Places:
        projection = self.member.einsum.by_tensor[tensor].projection
        if any(not _plain(index) for _, index in projection):
            raise _Refused(f"it reads {tensor!r} at other places than those of its rank variables")
        return tuple((rank, index.terms[0][0]) for rank, index in projection)


def _joined(left: Factors, right: Factors) -> Factors:
    made = dict(left)
    for key, amount in right.items():
        other = made.pop(key, Amount(0.0, amount.places))
        if other.places != amount.places:
            raise _Refused(f"it has factors of {_text([key])} at different places")
        if other.value + amount.value:
            made[key] = Amount(other.value + amount.value, amount.places)
    return made
