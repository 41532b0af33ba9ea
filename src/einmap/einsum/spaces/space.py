"""The iteration space of an Einsum: integer points that satisfy its constraints, and their bounding box.

Constraints are chains of comparisons of affine expressions, joined by `and`, `or`, `not`; `mod` is allowed.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from einmap.einsum.spaces.lattice_points import HalfSpace, lattice_points
from einmap.einsum.spaces.projection import Affine, RankVar, collect_terms, parse_affine
from einmap.errors import SpecError, did_you_mean
from einmap.expressions.evaluator.syntax import check_text_length, shortened

MAX_POINTS = 4_000_000
"""Largest box that is enumerated to count the points of a space that is not a box."""

MAX_DEPTH = 50
"""How deep a constraint may be nested."""

_WORDS = re.compile(r"\b(mod|and|or|not)\b")
_LINEAR_CUT = re.compile(r"([^<>=%()]+) ((?:<|>=) -?\d+)")
_SINGLE_EQUALS = re.compile(r"(?<![<>=!])=(?!=)")


@dataclass(frozen=True)
class Constraint:
    """One constraint: its text and checked syntax tree."""

    text: str
    tree: ast.expr

    @cached_property
    def names(self) -> frozenset[str]:
        """The names that it speaks of."""
        return frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))

    @cached_property
    def linear(self) -> tuple[tuple[_Linear, ...], bool]:
        """The linear inequalities that it implies, and whether that is all of it."""
        parts, whole = _linear_parts(self.tree)
        return tuple(parts), whole


@dataclass(frozen=True, slots=True)
class Space:
    """Lower and upper value (both included) of each rank variable; `points` is None when not counted."""

    low: tuple[tuple[RankVar, int], ...]
    high: tuple[tuple[RankVar, int], ...]
    points: int | None
    is_box: bool
    cuts: tuple[str, ...] = ()
    """The constraints that cut points off the box, in a form of their own; none where the space is a box."""


type _Ends = dict[RankVar, int | None]


def parse_constraint(text: str) -> Constraint:
    """Read e.g. `0 <= m < 4`, `p + r < 10 and p mod 2 = 0`. Raises SpecError for anything else."""
    return _parsed(str(text))


@lru_cache(maxsize=4096)
def _parsed(text: str) -> Constraint:
    check_text_length(text)
    try:
        python = _WORDS.sub(lambda m: "%" if m[1] == "mod" else m[1], text)
        tree = ast.parse(_SINGLE_EQUALS.sub("==", python).strip(), mode="eval").body
        _check(tree, 0)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        what = f": unexpected {error}" if isinstance(error, ValueError) and str(error) else ""
        raise SpecError(
            f"{shortened(text)} is no bound of rank variables{what}",
            hint="write for example 0 <= m < 4, or p + r < 10",
        ) from None
    return Constraint(text, tree)


def _check(node: ast.expr, depth: int) -> None:
    """A truth value: comparisons joined by and, or, not. ValueError otherwise."""
    if depth > MAX_DEPTH:
        raise ValueError("nesting")
    match node:
        case ast.BoolOp(values=values):
            for value in values:
                _check(value, depth + 1)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            _check(operand, depth + 1)
        case ast.Compare(left=left, ops=ops, comparators=others):
            if not all(isinstance(op, ast.Lt | ast.LtE | ast.Gt | ast.GtE | ast.Eq) for op in ops):
                raise ValueError("comparison")
            for part in (left, *others):
                _check_index(part, depth + 1)
        case _:
            raise ValueError(f"`{ast.unparse(node)[:40]}`, which is not a comparison")


def _check_index(node: ast.expr, depth: int) -> None:
    """Integer arithmetic on rank variables. ValueError otherwise."""
    if depth > MAX_DEPTH:
        raise ValueError("nesting")
    match node:
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            _check_index(operand, depth + 1)
        case ast.BinOp(left=left, op=ast.Mod(), right=ast.Constant(value=int(value))) if value > 0:
            _check_index(left, depth + 1)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult(), right=right):
            _check_index(left, depth + 1)
            _check_index(right, depth + 1)
        case ast.Name():
            return
        case ast.Constant(value=int(value)) if not isinstance(value, bool):
            return
        case ast.BinOp(op=ast.LShift()):
            raise ValueError("`<<`")
        case _:
            raise ValueError(f"`{ast.unparse(node)[:40]}`")


def check_names(constraint: Constraint, variables: Iterable[RankVar], what: str) -> None:
    """Raise SpecError for a constraint that speaks of anything but these rank variables."""
    for name in sorted(constraint.names - set(variables)):
        raise SpecError(
            f"{name!r} in the bound {constraint.text!r} is not a rank variable of {what}",
            hint=did_you_mean(name, variables, listing="rank variables"),
        )


def within(index: Affine, size: int) -> Constraint:
    """`0 <= index < size`, for the index of a rank that has a size."""
    return parse_constraint(f"0 <= {index} < {size}")


@dataclass(frozen=True, slots=True)
class _Linear:
    """`sum of coefficient * variable + constant >= 0`."""

    coefficients: Mapping[str, int]
    constant: int


def _linear_parts(node: ast.expr) -> tuple[list[_Linear], bool]:
    """The linear inequalities of a conjunction, and whether that is all of it."""
    if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
        parts = [_linear_parts(value) for value in node.values]
        return [linear for inequalities, _ in parts for linear in inequalities], all(whole for _, whole in parts)
    if not isinstance(node, ast.Compare):
        return [], False
    inequalities: list[_Linear] = []
    whole = True
    chain = [node.left, *node.comparators]
    for left, op, right in zip(chain, node.ops, chain[1:], strict=False):
        try:
            difference = collect_terms(ast.BinOp(right, ast.Sub(), left), 0)
        except ValueError:
            whole = False
            continue
        constant = difference.pop("", 0)
        strict = isinstance(op, ast.Lt | ast.Gt)
        if isinstance(op, ast.Lt | ast.LtE | ast.Eq):
            inequalities.append(_Linear(difference, constant - strict))
        if isinstance(op, ast.Gt | ast.GtE | ast.Eq):
            inequalities.append(_Linear({v: -a for v, a in difference.items()}, -constant - strict))
    return inequalities, whole


def bounds(variables: Iterable[RankVar], constraints: Iterable[Constraint], what: str) -> Space:
    """The bounding box of the space, exact by enumeration where it is not a hyperrectangle and small enough.

    Only variables that constraints link are enumerated together.

    Raises SpecError when a variable has no bound, a name is unknown, or the space is empty.
    """
    variables = list(variables)
    constraints = list(constraints)
    linear: list[_Linear] = []
    rest = False
    for constraint in constraints:
        check_names(constraint, variables, what)
        parts, whole = constraint.linear
        linear += parts
        rest = rest or not whole
    least, most = _propagate(variables, linear, what)
    low = {v: end for v, end in least.items() if end is not None}
    high = {v: end for v, end in most.items() if end is not None}
    for v in variables:
        if v not in low or v not in high:
            raise SpecError(
                f"rank variable {v!r} of {what} has no bound",
                hint=f"add rank_sizes.{v.upper()} or iteration_space_shape.{v}",
            )
    is_box = not rest and all(_implied(part, low, high) for part in linear)
    points: int | None = math.prod(high[v] - low[v] + 1 for v in variables)
    if not is_box:
        cutting = [c for c in constraints if not _holds_everywhere(c, low, high)]
        points = 1
        for group in linked(variables, cutting):
            group_cuts = [c for c in cutting if c.names <= {*group}]
            low, high, number = _enumerate(group, group_cuts, low, high, what)
            points = None if number is None or points is None else points * number
        is_box = points == math.prod(high[v] - low[v] + 1 for v in variables)
    return Space(
        tuple((v, low[v]) for v in variables),
        tuple((v, high[v]) for v in variables),
        points,
        is_box,
        () if is_box else _cuts(variables, constraints, low, high),
    )


def linked(variables: Iterable[RankVar], constraints: Iterable[Constraint]) -> list[list[RankVar]]:
    """The variables in groups, such that no constraint speaks of two groups."""
    groups = [[v] for v in variables]
    for constraint in constraints:
        joined = [group for group in groups if constraint.names & {*group}]
        groups = [group for group in groups if group not in joined]
        groups.append([v for group in joined for v in group])
    return [group for group in groups if group]


def _holds_everywhere(constraint: Constraint, low: Mapping[str, int], high: Mapping[str, int]) -> bool:
    parts, whole = constraint.linear
    return whole and all(_implied(part, low, high) for part in parts)


def _cuts(
    variables: Iterable[RankVar], constraints: Iterable[Constraint], low: Mapping[str, int], high: Mapping[str, int]
) -> tuple[str, ...]:
    """Constraints that the box does not imply, without repetition and in an order of its own."""
    cuts: set[str] = set()
    for constraint in constraints:
        parts, whole = constraint.linear
        if whole:
            cuts |= {_comparison(part, variables) for part in parts if not _implied(part, low, high)}
        else:
            cuts.add(ast.unparse(constraint.tree))
    return tuple(sorted(cuts))


def _comparison(part: _Linear, variables: Iterable[RankVar]) -> str:
    """`4*k1 + k0 < 10` or `m - n >= 0`: the first coefficient is positive."""
    terms = tuple((v, part.coefficients[v]) for v in variables if part.coefficients.get(v))
    if terms[0][1] > 0:
        return f"{Affine(terms)} >= {-part.constant}"
    return f"{Affine(tuple((v, -a) for v, a in terms))} < {part.constant + 1}"


def index_ends(
    index: Affine, low: Mapping[RankVar, int], extents: Mapping[RankVar, int], cuts: Iterable[str]
) -> tuple[int, int]:
    """The least and the largest value of an index at the points of a space, a box without what `cuts` cut off; where
    a group of variables that cuts link has more than MAX_POINTS points, those of the box.
    """
    constraints = [parse_constraint(text) for text in cuts]
    least = most = index.constant
    for group in linked(extents, constraints):
        terms = [(v, a) for v, a in index.terms if v in group]
        group_cuts = [c for c in constraints if c.names & {*group}]
        if group_cuts and terms and math.prod(extents[v] for v in group) <= MAX_POINTS:
            grid, inside = box_points(group, group_cuts, low, {v: low.get(v, 0) + extents[v] - 1 for v in group})
            values = np.broadcast_to(sum(a * grid[v] for v, a in terms), inside.shape)[inside]
            least, most = least + int(values.min()), most + int(values.max())
            continue
        for v, a in terms:
            begin = a * low.get(v, 0)
            end = begin + a * (extents[v] - 1)
            least, most = least + min(begin, end), most + max(begin, end)
    return least, most


def index_values(
    index: Affine, low: Mapping[RankVar, int], extents: Mapping[RankVar, int], cuts: Iterable[str]
) -> list[int]:
    """The value of an index at each point of a space, which is enumerated."""
    high = {v: low.get(v, 0) + n - 1 for v, n in extents.items()}
    grid, inside = box_points([*extents], [parse_constraint(text) for text in cuts], low, high)
    total: Any = index.constant + sum(a * grid[v] for v, a in index.terms)
    values: list[int] = np.broadcast_to(total, inside.shape)[inside].tolist()
    return values


def linear_cut(cut: str) -> tuple[Affine, str] | None:
    """(4*k1 + k0, "< 10") for `4*k1 + k0 < 10`; None for any other constraint, such as one with `mod`."""
    match = _LINEAR_CUT.fullmatch(cut)
    return (parse_affine(match[1]), match[2]) if match else None


def inside_of(constraints: Iterable[Constraint], grid: Mapping[RankVar, Any]) -> Any:
    """Whether points satisfy all constraints; `grid` holds values of the variables that broadcast to one shape."""
    inside: Any = np.True_
    for constraint in constraints:
        inside = np.logical_and(inside, _holds(constraint.tree, grid))
    return inside


def _propagate(variables: list[str], linear: list[_Linear], what: str) -> tuple[_Ends, _Ends]:
    """Tighten intervals until nothing changes (at most a few rounds for bounds that people write).

    In integers, since bounds may be larger than floats are exact; None is no bound.
    """
    low: _Ends = dict.fromkeys(variables)
    high: _Ends = dict.fromkeys(variables)
    for _ in range(4 * len(variables) + 4):
        changed = False
        for part in linear:
            if not part.coefficients and part.constant < 0:
                raise SpecError(f"the iteration space of {what} is empty: an index lies outside its rank")
            best = {v: _times(a, high[v] if a > 0 else low[v]) for v, a in part.coefficients.items() if a}
            for v, a in part.coefficients.items():
                others = _sum(part.constant, (value for w, value in best.items() if w != v))
                if not a or others is None:
                    continue
                # The part says that a times v, plus the others, is at least 0.
                if a > 0:
                    least, limit = low[v], -(others // a)
                    if least is None or limit > least:
                        low[v], changed = limit, True
                else:
                    most, limit = high[v], others // -a
                    if most is None or limit < most:
                        high[v], changed = limit, True
        for v in variables:
            least, most = low[v], high[v]
            if least is not None and most is not None and least > most:
                raise SpecError(f"the iteration space of {what} is empty: no value of {v!r} satisfies all bounds")
        if not changed:
            break
    return low, high


def _times(factor: int, end: int | None) -> int | None:
    return None if end is None else factor * end


def _sum(start: int, values: Iterable[int | None]) -> int | None:
    total = start
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _implied(part: _Linear, low: Mapping[str, int], high: Mapping[str, int]) -> bool:
    return part.constant + sum(a * (low[v] if a > 0 else high[v]) for v, a in part.coefficients.items()) >= 0


def _enumerate(
    variables: list[str],
    constraints: list[Constraint],
    low: dict[str, int],
    high: dict[str, int],
    what: str,
) -> tuple[dict[str, int], dict[str, int], int | None]:
    if math.prod(high[v] - low[v] + 1 for v in variables) > MAX_POINTS:
        if len(variables) > 2 or not all(constraint.linear[1] for constraint in constraints):
            return low, high, None
        parts = [part for constraint in constraints for part in constraint.linear[0]]
        planes = [HalfSpace(tuple(one.coefficients.get(v, 0) for v in variables), one.constant) for one in parts]
        moved = [plane.moved([low[v] for v in variables]) for plane in planes]
        return low, high, lattice_points(tuple(high[v] - low[v] + 1 for v in variables), moved)
    _, inside = box_points(variables, constraints, low, high)
    if not inside.any():
        raise SpecError(f"the iteration space of {what} is empty: no point satisfies all bounds")
    tight_low, tight_high = dict(low), dict(high)
    for axis, v in enumerate(variables):
        kept = np.flatnonzero(inside.any(axis=tuple(a for a in range(inside.ndim) if a != axis)))
        tight_low[v], tight_high[v] = low[v] + int(kept[0]), low[v] + int(kept[-1])
    return tight_low, tight_high, int(inside.sum())


def box_points(
    variables: list[RankVar], constraints: list[Constraint], low: Mapping[RankVar, int], high: Mapping[RankVar, int]
) -> tuple[dict[RankVar, Any], Any]:
    """Values of the variables of a box, one axis for each, and which of its points satisfy the constraints."""
    low = {v: low.get(v, 0) for v in variables}
    shape = [high[v] - low[v] + 1 for v in variables]
    reach = {v: max(abs(low[v]), abs(high[v])) for v in variables}
    is_small = all(_reach(constraint.tree, reach) < 2**62 for constraint in constraints)
    number = np.int64 if is_small else object
    steps = (np.arange(n).astype(number) + low[v] for v, n in zip(variables, shape, strict=True))
    axes = np.meshgrid(*steps, indexing="ij", sparse=True)
    grid = dict(zip(variables, axes, strict=True))
    return grid, np.broadcast_to(np.asarray(inside_of(constraints, grid), dtype=bool), shape)


def _reach(node: ast.expr, reach: Mapping[str, int]) -> int:
    """A bound on the magnitude of every number inside a checked constraint."""
    match node:
        case ast.Name(id=name):
            return reach[name]
        case ast.Constant(value=int(value)):
            return abs(value)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return max(1, _reach(left, reach)) * max(1, _reach(right, reach))
        case ast.BinOp(left=left, right=right):
            return _reach(left, reach) + _reach(right, reach)
        case _:
            parts = (child for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr))
            return max((_reach(part, reach) for part in parts), default=0)


def _holds(node: ast.expr, grid: Mapping[str, Any]) -> Any:
    """Value of a checked constraint on arrays of points."""
    match node:
        case ast.BoolOp(op=op, values=values):
            results = [_holds(value, grid) for value in values]
            join = np.logical_and if isinstance(op, ast.And) else np.logical_or
            total = results[0]
            for result in results[1:]:
                total = join(total, result)
            return total
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return np.logical_not(_holds(operand, grid))
        case ast.UnaryOp(operand=operand):
            return -_holds(operand, grid)
        case ast.Compare(left=left, ops=ops, comparators=others):
            values = [_holds(part, grid) for part in (left, *others)]
            truth: Any = True
            for a, comparison, b in zip(values, ops, values[1:], strict=False):
                truth = np.logical_and(truth, _COMPARE[type(comparison)](a, b))
            return truth
        case ast.BinOp(left=left, op=operator, right=right):
            return _ARITHMETIC[type(operator)](_holds(left, grid), _holds(right, grid))
        case ast.Name(id=name):
            return grid[name]
        case ast.Constant(value=value):
            return value
        case _:
            raise SpecError(f"unexpected {ast.unparse(node)} in a bound")


_COMPARE: dict[type, Any] = {
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
}
_ARITHMETIC: dict[type, Any] = {ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Mod: np.mod}
