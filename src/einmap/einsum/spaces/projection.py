"""How rank variables index a tensor: one affine expression for each rank."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from einmap.errors import SpecError
from einmap.expressions.evaluator.syntax import check_text_length, shortened

MAX_COEFFICIENT = 2**40
"""Largest factor and constant of an index; that of the bounds of rank variables."""

type RankVar = str
type Rank = str


class Relevance(Enum):
    """Relation of a rank variable to a tensor (docs/definitions.md)."""

    FULL = "fully relevant"
    PARTIAL = "partially relevant"
    NONE = "irrelevant"


@dataclass(frozen=True, slots=True)
class Affine:
    """An index: the sum of `coefficient * variable` and a constant; no coefficient is zero."""

    terms: tuple[tuple[RankVar, int], ...]
    constant: int = 0

    def extent(self, extents: Mapping[RankVar, int]) -> int:
        """Length of the interval from the smallest to the largest index, holes included.

        `2*p + r` over 4 values of p and 3 of r covers 2*3 + 2 + 1 = 9 indices; the constant shifts only.
        """
        return sum(abs(a) * (extents[v] - 1) for v, a in self.terms) + 1

    def __str__(self) -> str:
        text = ""
        for variable, a in self.terms:
            sign = "-" if a < 0 else "+" if text else ""
            text += (f" {sign} " if text else sign) + (variable if abs(a) == 1 else f"{abs(a)}*{variable}")
        if self.constant or not text:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}" if text else str(self.constant)
        return text


type Projection = tuple[tuple[Rank, Affine], ...]


@dataclass(frozen=True, slots=True)
class Lookup:
    """The index of a rank that is a value of another tensor: `V: Ids[t]` has the index tensor Ids, indexed by t.

    `size`: of the rank. Each value of the index tensor stands for a row, or for zeros where it is -1.
    """

    tensor: str
    projection: Projection
    size: int = 0

    def __str__(self) -> str:
        return f"{self.tensor}[{', '.join(str(index) for _, index in self.projection)}]"


type Written = tuple[tuple[Rank, Affine | Lookup], ...]
"""A projection as it is written: ranks that are looked up are there, in their places."""


def lookups(written: Written) -> dict[Rank, Lookup]:
    """The ranks of a projection that are looked up."""
    return {rank: index for rank, index in written if isinstance(index, Lookup)}


def by_position(written: Written) -> Projection:
    """The projection of the rows that a tensor's lookups fetch, as if they lay there in the order of their fetching.

    Table[V: Ids[b, s], d] has the ranks V of b, V.S of s, and D of d: a row for each place of the index tensor. An
    index that is there already is not there twice: A[I: P[i, j], J: j] has the ranks I of i and J of j.
    Raises SpecError for indices that share rank variables and are not the same.
    """
    plain = [(rank, index) for rank, index in written if isinstance(index, Affine)]
    seen = {_key(index) for _, index in plain}
    rows: list[tuple[Rank, Affine]] = []
    for rank, index in written:
        if isinstance(index, Affine):
            rows.append((rank, index))
            continue
        first = True
        for inner, place in index.projection:
            if place.terms and _key(place) not in seen:
                seen.add(_key(place))
                rows.append((rank if first else f"{rank}.{inner}", place))
                first = False
    variables = [v for _, index in rows for v, _ in index.terms]
    if lookups(written) and len(variables) > len({*variables}):
        twice = next(v for v in variables if variables.count(v) > 1)
        raise SpecError(
            f"the rank variable {twice!r} is in two different indices of a tensor of which rows are gathered",
            hint="use the same index in both, or copy the index tensor into a tensor with a rank of its own first",
        )
    return tuple(rows) or ((written[0][0], Affine(())),)


def _key(index: Affine) -> tuple[frozenset[tuple[RankVar, int]], int]:
    return frozenset(index.terms), index.constant


_IMPLICIT_PRODUCT = re.compile(r"(?<![\w.])(\d+)([A-Za-z_])")


def parse_affine(text: str) -> Affine:
    """Read an index such as `p`, `2*p + r`, `2p - 1` or `3`.

    Raises SpecError when the text is anything but affine in the rank variables with integer coefficients.
    """
    check_text_length(text)
    try:
        tree = ast.parse(_IMPLICIT_PRODUCT.sub(r"\1*\2", text.strip()), mode="eval").body
        coefficients = collect_terms(tree, depth=0)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(
            f"{shortened(text)} is not an index: a projection must be affine in the rank variables",
            hint="write integers times rank variables, joined by + and -, such as 2*p + r",
        ) from None
    if any(abs(a) > MAX_COEFFICIENT for a in coefficients.values()):
        raise SpecError(f"the index {shortened(text)} has a factor or constant beyond 2**40")
    constant = coefficients.pop("", 0)
    return Affine(tuple((v, a) for v, a in coefficients.items() if a), constant)


def collect_terms(node: ast.expr, depth: int) -> dict[str, int]:
    """Coefficients by variable; the constant under the empty name. ValueError when not affine."""
    if depth > 50:
        raise ValueError("too deep")
    match node:
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return {"": value}
        case ast.Name(id=name):
            return {name: 1}
        case ast.UnaryOp(op=ast.USub() | ast.UAdd() as op, operand=operand):
            sign = -1 if isinstance(op, ast.USub) else 1
            return {v: sign * a for v, a in collect_terms(operand, depth + 1).items()}
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
            total = collect_terms(left, depth + 1)
            sign = -1 if isinstance(op, ast.Sub) else 1
            for v, a in collect_terms(right, depth + 1).items():
                total[v] = total.get(v, 0) + sign * a
            return total
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            terms, factor = collect_terms(left, depth + 1), collect_terms(right, depth + 1)
            if set(terms) <= {""}:
                terms, factor = factor, terms
            if set(factor) <= {""}:
                return {v: a * factor.get("", 0) for v, a in terms.items()}
    raise ValueError("not affine")


def relevance(projection: Projection, variable: RankVar) -> Relevance:
    """Relation of `variable` to a tensor: judged by the first index in which it occurs."""
    for _, index in projection:
        if any(v == variable for v, _ in index.terms):
            return Relevance.FULL if len(index.terms) == 1 else Relevance.PARTIAL
    return Relevance.NONE


def footprint(projection: Projection, extents: Mapping[RankVar, int]) -> int:
    """Values in the box that a tile of these extents touches."""
    size = 1
    for _, index in projection:
        size *= index.extent(extents)
    return size
