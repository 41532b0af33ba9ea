"""Expressions from one dialect into the other: reciprocals, names of fields, names in `total_latency`.

What is not concerned keeps the spelling of the user, blanks included.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from einmap.errors import ExpressionError
from einmap.expressions.evaluator.syntax import one_line, parse

type Replace = Callable[[ast.AST], str | None]

_EXTREMES = ("max", "min", "sum")


def edited(text: str, replace: Replace, tree: ast.AST | None = None) -> str:
    """`text` with the parts of its syntax tree that `replace` has a new text for; what is inside those is left out.

    `tree`: a part of the syntax tree of `text`; only that part is returned. Raises ExpressionError for
    what is not an expression.
    """
    whole = parse(text) if tree is None else tree
    source = text.encode()
    edits: list[tuple[int, int, str]] = []
    waiting = [whole]
    while waiting:
        node = waiting.pop()
        new = replace(node)
        if new is None:
            waiting += ast.iter_child_nodes(node)
        else:
            edits.append((*_with_parentheses(source, *_span(node), new), new))
    start, end = (0, len(source)) if tree is None else _span(tree)
    parts: list[str] = []
    for first, last, new in sorted(edits):
        parts += [source[start:first].decode(), new]
        start = last
    return "".join([*parts, source[start:end].decode()])


def _with_parentheses(source: bytes, start: int, end: int, new: str) -> tuple[int, int]:
    """The span that a word replaces: parentheses around it alone go too. `2 * (x / y)` --> `2 * z`."""
    outside = source[: start - 1].rstrip()[-1:].decode(errors="replace") if start else ""
    is_bracketed = start > 0 and source[start - 1 : start] == b"(" and source[end : end + 1] == b")"
    is_call = outside.isalnum() or outside in ("_", ")", "]")
    return (start - 1, end + 1) if new.isidentifier() and is_bracketed and not (outside and is_call) else (start, end)


def _span(node: ast.AST) -> tuple[int, int]:
    """Position of the first byte of a node, and behind its last one, in a text of one line."""
    assert isinstance(node, ast.expr)
    assert node.end_col_offset is not None
    return node.col_offset, node.end_col_offset


def _segment(text: str, node: ast.AST) -> str:
    first, last = _span(node)
    return text.encode()[first:last].decode()


def reciprocal(text: str, is_safe: Callable[[str], bool]) -> str:
    """The expression of 1 / `text`, as short as it can be: `1 / (8 * 614e9)` --> `8 * 614e9`.

    `is_safe` says whether an expression is never 0; without that 1 / 0 is guarded: it is infinite here.
    Twice the reciprocal is the text itself, or something equal. Raises ExpressionError.
    """
    source = one_line(text)
    tree = parse(source)
    if isinstance(tree, ast.Name) and tree.id == "inf":
        return "0"
    factors = _divisors(tree)
    if factors is not None:
        return _segment(source, factors[0]) if len(factors) == 1 else " * ".join(_operand(source, f) for f in factors)
    guarded = _guarded(source, tree)
    if guarded is not None:
        return guarded
    part = _operand(source, tree)
    return f"1 / {part}" if is_safe(source) else f"inf if {part} == 0 else 1 / {part}"


def _operand(text: str, node: ast.expr) -> str:
    """A part of an expression as a factor: in parentheses unless it is a word, a number or a call."""
    part = _segment(text, node)
    return part if isinstance(node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript) else f"({part})"


def _divisors(tree: ast.expr) -> list[ast.expr] | None:
    """[a, b] of `1 / a / b`; None for anything else."""
    divisors: list[ast.expr] = []
    while isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
        divisors.insert(0, tree.right)
        tree = tree.left
    is_one = isinstance(tree, ast.Constant) and type(tree.value) in (int, float) and tree.value == 1
    return divisors if divisors and is_one else None


def _guarded(text: str, tree: ast.expr) -> str | None:
    """`x` of `inf if x == 0 else 1 / x`; None for anything else."""
    match tree:
        case ast.IfExp(
            test=ast.Compare(left=value, ops=[ast.Eq()], comparators=[ast.Constant(value=0)]),
            body=ast.Name(id="inf"),
            orelse=other,
        ):
            divisors = _divisors(other) or []
            same = [d for d in divisors if ast.dump(d) == ast.dump(value)]
            return _segment(text, value) if len(divisors) == len(same) == 1 else None
        case _:
            return None


def renamed(text: str, names: Mapping[str, str], attributes: Mapping[str, str]) -> str:
    """`text` with names, and attributes of names, replaced by the reciprocals of other ones.

    renamed("latency * 2", {"latency": "throughput"}, {}) == "(1 / throughput) * 2", and back
    """
    source = one_line(text)
    if not any(name in source for name in (*names, *attributes)):
        return text

    def replace(node: ast.AST) -> str | None:
        match node:
            case ast.BinOp(left=ast.Constant(value=1), op=ast.Div(), right=ast.Name(id=name)) if name in names:
                return names[name]
            case ast.Name(id=name) if name in names:
                return f"(1 / {names[name]})"
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if name in attributes:
                return f"(1 / {owner}.{attributes[name]})"
            case _:
                return None

    return edited(source, replace)


def without_factor(text: str, operator: type[ast.operator], factor: str) -> str | None:
    """`x` of `x * factor` (ast.Mult) or `x / factor` (ast.Div); None for anything else."""
    source = one_line(text)
    match parse(source):
        case ast.BinOp(left=left, op=found, right=right) if isinstance(found, operator):
            return _segment(source, left) if _segment(source, right) == factor else None
        case _:
            return None


def times(text: str, operator: str, factor: str) -> str:
    """`text` and `factor` with `*` or `/` between them, `text` in parentheses where it needs them."""
    source = one_line(text)
    return f"{_operand(source, parse(source))} {operator} {factor}"


@dataclass(frozen=True)
class LatencyNames:
    """Rewrites `total_latency` of a component with these actions between the names of the dialects."""

    actions: Sequence[str]

    def newer(self, text: str) -> str:
        """max(read_latency, write_latency) --> max(a.n_calls / a.throughput for a in actions)."""
        source = one_line(text)
        tree = parse(source)
        loose = _loose(tree)

        def replace(node: ast.AST) -> str | None:
            match node:
                case ast.Call(func=ast.Name(id=function), args=args, keywords=[]) if function in _EXTREMES:
                    kind = self._all_of(args)
                    return None if kind is None else f"{function}({_GENERATORS[kind]})"
                case ast.Call(func=ast.Attribute(value=ast.Name(id="action2latency"), attr="values"), args=[]):
                    return f"[{_GENERATORS['latency']}]"
                case ast.Subscript(value=ast.Name(id="action2latency"), slice=ast.Constant(value=str(name))):
                    return self._newer_name(name.removesuffix("_latency"), "latency", is_loose=node in loose)
                case ast.Name(id="action2latency"):
                    raise _inexpressible("newer", "action2latency", "action2latency.values()")
                case ast.Name(id=name):
                    action, _, kind = name.rpartition("_")
                    is_ours = action in self.actions and kind in _GENERATORS
                    return self._newer_name(action, kind, is_loose=node in loose) if is_ours else None
                case _:
                    return None

        return edited(source, replace)

    def _all_of(self, args: list[ast.expr]) -> str | None:
        """`latency` or `actions` when the arguments are those of all actions, in any order."""
        match args:
            case [ast.Starred(value=ast.Call(func=ast.Attribute(value=ast.Name(id="action2latency"), attr="values")))]:
                return "latency"
        names = sorted(arg.id if isinstance(arg, ast.Name) else "" for arg in args)
        if len(names) < 2:
            return None
        return next((k for k in _GENERATORS if names == sorted(f"{a}_{k}" for a in self.actions)), None)

    def _newer_name(self, action: str, kind: str, *, is_loose: bool) -> str:
        calls = f"actions['{action}'].n_calls"
        if kind == "actions":
            return calls
        ratio = f"{calls} / actions['{action}'].throughput"
        return ratio if is_loose else f"({ratio})"

    def older(self, text: str) -> str:
        """max(a.n_calls / a.throughput for a in actions) --> max(read_latency, write_latency).

        Raises ExpressionError for what the older names cannot say.
        """
        return self._older_part(one_line(text), None, {})

    def _older_part(self, source: str, tree: ast.AST | None, bound: Mapping[str, str]) -> str:
        """`tree`, a part of `source`; `bound` names the action that a variable stands for."""

        def replace(node: ast.AST) -> str | None:
            return self._older_node(source, node, bound)

        return edited(source, replace, tree)

    def _older_node(self, source: str, node: ast.AST, bound: Mapping[str, str]) -> str | None:
        match node:
            case ast.Call(func=ast.Name(id=function), args=[only], keywords=[]) if function in _EXTREMES:
                values = self._spread(source, only, bound)
                if values is None:
                    return None
                return _in_parentheses(values[0]) if len(values) == 1 else f"{function}({', '.join(values)})"
            case ast.Starred(value=value):
                values = self._spread(source, value, bound)
                return None if values is None else ", ".join(values)
            case ast.BinOp(left=left, op=ast.Div(), right=ast.Attribute(value=owner, attr="throughput")):
                action = self._action(owner, bound)
                return None if action is None else self._seconds(source, left, action, bound)
            case ast.Attribute(value=owner, attr=field):
                action = self._action(owner, bound)
                if action is None:
                    return None
                if field == "n_calls" and action.isidentifier():
                    return f"{action}_actions"
                if field == "throughput":
                    hint = f"n_calls / throughput of an action is {action}_latency there"
                    raise _inexpressible("older", "throughput alone", hint)
                return f"actions[{list(self.actions).index(action)}].{field}"
            case ast.Name(id=name) if name == "actions" or name in bound:
                raise _inexpressible("older", ast.unparse(node), "sum, max and min over all actions can be written")
            case ast.Name(id=name) if name in ("max_hops", "max_link_traffic"):
                raise _inexpressible("older", name, "networks exist in the newer dialect only")
            case _:
                return None

    def _seconds(self, source: str, left: ast.expr, action: str, bound: Mapping[str, str]) -> str | None:
        """`n_calls / throughput` and `x * n_calls / throughput` of one action."""
        match left:
            case ast.BinOp(left=factor, op=ast.Mult(), right=calls) if self._is_calls(calls, action, bound):
                return f"{self._older_part(source, factor, bound)} * {action}_latency"
            case calls if self._is_calls(calls, action, bound):
                return f"{action}_latency"
            case _:
                return None

    def _is_calls(self, node: ast.expr, action: str, bound: Mapping[str, str]) -> bool:
        return isinstance(node, ast.Attribute) and node.attr == "n_calls" and self._action(node.value, bound) == action

    def _action(self, node: ast.expr, bound: Mapping[str, str]) -> str | None:
        """The action that `actions['read']`, `actions[0]` or a bound variable is."""
        match node:
            case ast.Name(id=name):
                return bound.get(name)
            case ast.Subscript(value=ast.Name(id="actions"), slice=ast.Constant(value=str(name))):
                return name if name in self.actions else None
            case ast.Subscript(value=ast.Name(id="actions"), slice=ast.Constant(value=int(index))):
                return self.actions[index] if index < len(self.actions) else None
            case _:
                return None

    def _spread(self, source: str, node: ast.expr, bound: Mapping[str, str]) -> list[str] | None:
        """The values of `... for a in actions`, one for each action; None for anything else."""
        match node:
            case ast.GeneratorExp(elt=value, generators=[loop]) | ast.ListComp(elt=value, generators=[loop]):
                pass
            case _:
                return None
        is_plain = isinstance(loop.iter, ast.Name) and loop.iter.id == "actions" and not loop.ifs
        if not is_plain or not isinstance(loop.target, ast.Name):
            return None
        return [self._older_part(source, value, {**bound, loop.target.id: action}) for action in self.actions]


_GENERATORS = {
    "latency": "a.n_calls / a.throughput for a in actions",
    "actions": "a.n_calls for a in actions",
}


def _inexpressible(dialect: str, what: str, hint: str) -> ExpressionError:
    return ExpressionError(f"the {dialect} dialect cannot express `{what}` in total_latency", hint=hint)


def _loose(tree: ast.expr) -> set[ast.expr]:
    """The nodes that a quotient may replace without parentheses."""
    loose: set[ast.expr] = {tree}
    for node in ast.walk(tree):
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                loose |= {left, right}
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):
                loose.add(left)
            case ast.Call(args=args):
                loose |= {*args}
    return loose


def _in_parentheses(text: str) -> str:
    return text if text.isidentifier() else f"({text})"
