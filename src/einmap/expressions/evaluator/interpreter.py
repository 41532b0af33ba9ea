"""Evaluate a checked syntax tree: one method for each kind of node."""

from __future__ import annotations

import ast
import difflib
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from einmap.errors import ExpressionError, closest, did_you_mean
from einmap.expressions.evaluator.budget import Account, Budget
from einmap.expressions.evaluator.functions import BUILT_IN, items
from einmap.expressions.evaluator.operators import BINARY, COMPARE, UNARY, apply, is_array
from einmap.expressions.evaluator.syntax import quoted
from einmap.expressions.records import HasAttributes, RecordList, SafeFunction
from einmap.expressions.sets import NameSet

type Local = Mapping[str, object]

MISSING = object()
"""Answer of a scope for a name that it does not have."""

_LISTED_NAMES = 20
_SHOWN_NAME = 80
_DICT_METHODS: Mapping[str, Callable[[Mapping[Any, Any]], object]] = {
    "keys": lambda table: list(table.keys()),
    "values": lambda table: list(table.values()),
    "items": lambda table: list(table.items()),
}


class Names(Protocol):
    """Where an expression finds its names."""

    def get(self, name: str, default: object = None) -> Any:
        """The value of a name, or `default`."""
        ...

    def names(self) -> Iterable[str]:
        """All names, for suggestions."""
        ...

    def sets(self) -> Mapping[str, NameSet]:
        """Names that stand for sets, for suggestions."""
        ...

    @property
    def account(self) -> Account:
        """Work that all expressions of the specification may still do."""
        ...


def undefined(name: str, names: Callable[[], Iterable[str]]) -> ExpressionError:
    """The error for a name that is not defined; its hint lists the names most like it, if it is asked for."""
    name = name[:_SHOWN_NAME]
    return ExpressionError(f"name {name!r} is not defined", hint=lambda: _names_like(name, frozenset(names())))


def _names_like(name: str, names: frozenset[str]) -> str:
    ordered = sorted(names)
    guess = closest(name, [*ordered, *BUILT_IN])
    like = ordered
    if len(ordered) > _LISTED_NAMES:
        like = difflib.get_close_matches(name, ordered, n=_LISTED_NAMES, cutoff=0)
    listing = "known names" if like is ordered else f"of {len(ordered)} names the most similar"
    return did_you_mean(name, {*like, guess} if guess else like, listing=listing)


def plain(value: Any) -> Any:
    """A numpy number as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def shown(value: object) -> str:
    """A value within a message."""
    if isinstance(value, NameSet):
        return f"{value.kind} {value}"
    return "an array of values" if is_array(value) else quoted(repr(value)).strip("`")


@dataclass(frozen=True)
class Interpreter:
    """Evaluates the trees of one text; `local` are the variables of comprehensions around a node."""

    text: str
    scope: Names
    budget: Budget = field(default_factory=Budget)

    def value(self, node: ast.expr, local: Local) -> Any:
        """The value of a node. Raises ExpressionError."""
        self.budget.spend()
        return _BY_NODE[type(node)](self, node, local)

    def values(self, nodes: Iterable[ast.expr], local: Local) -> list[Any]:
        """The values of several nodes; `*x` stands for the elements of x."""
        values: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                values += self._elements(node.value, local)
            else:
                values.append(self.value(node, local))
        return values

    # names and literals

    def _constant(self, node: ast.Constant, _: Local) -> Any:
        self.budget.hold(node.value)
        return node.value

    def _name(self, node: ast.Name, local: Local) -> Any:
        if node.id in local:
            return local[node.id]
        value = self.scope.get(node.id, MISSING)
        if value is MISSING:
            value = BUILT_IN.get(node.id, MISSING)
        if value is MISSING:
            raise undefined(node.id, lambda: [*self.scope.names(), *local])
        return plain(value)

    def _list(self, node: ast.List, local: Local) -> Any:
        return self._held(self.values(node.elts, local))

    def _tuple(self, node: ast.Tuple, local: Local) -> Any:
        return self._held(tuple(self.values(node.elts, local)))

    def _set(self, node: ast.Set, local: Local) -> Any:
        return self._held(self._run(node, set, self._held(self.values(node.elts, local))))

    def _dict(self, node: ast.Dict, local: Local) -> Any:
        keys = self._held(self.values([key for key in node.keys if key is not None], local))
        pairs = list(zip(keys, self.values(node.values, local), strict=True))
        return self._held(self._run(node, dict, pairs))

    # operators

    def _binary(self, node: ast.BinOp, local: Local) -> Any:
        chain = [node]
        while isinstance(chain[-1].left, ast.BinOp):
            self.budget.spend()
            chain.append(chain[-1].left)
        total = self.value(chain[-1].left, local)
        for step in reversed(chain):
            right = self.value(step.right, local)
            total = self._held(self._run(step, apply, BINARY[type(step.op)], total, right))
        return total

    def _unary(self, node: ast.UnaryOp, local: Local) -> Any:
        operand = self.value(node.operand, local)
        if isinstance(node.op, ast.Not):
            return not self._truth(node.operand, operand)
        return self._run(node, UNARY[type(node.op)], operand)

    def _bool_op(self, node: ast.BoolOp, local: Local) -> Any:
        until = isinstance(node.op, ast.Or)
        value: Any = None
        for operand in node.values:
            value = self.value(operand, local)
            if self._truth(operand, value) == until:
                return value
        return value

    def _compare(self, node: ast.Compare, local: Local) -> Any:
        left = self._comparable(node, self.value(node.left, local))
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self._comparable(node, self.value(right_node, local))
            if not self._run(node, COMPARE[type(op)], left, right):
                return False
            left = right
        return True

    def _comparable(self, node: ast.expr, value: Any) -> Any:
        if is_array(value):
            raise self._no_condition(node)
        if isinstance(value, range):
            self.budget.spend(len(value))
        return self._held(value)

    def _if(self, node: ast.IfExp, local: Local) -> Any:
        holds = self._truth(node.test, self.value(node.test, local))
        return self.value(node.body if holds else node.orelse, local)

    def _truth(self, node: ast.expr, value: Any) -> bool:
        if is_array(value):
            raise self._no_condition(node)
        return bool(value)

    def _no_condition(self, node: ast.expr) -> ExpressionError:
        return ExpressionError(
            f"{self._source(node)} is an array of values, which cannot be compared or be a condition",
            hint="use min and max, which work on each value",
        )

    # comprehensions

    def _list_comprehension(self, node: ast.ListComp | ast.GeneratorExp, local: Local) -> Any:
        elements: list[Any] = []
        for inner in self._loops(node.generators, local):
            elements.append(self._held(self.value(node.elt, inner)))
        return self._held(elements)

    def _set_comprehension(self, node: ast.SetComp, local: Local) -> Any:
        return self._run(node, set, self._list_comprehension(ast.ListComp(node.elt, node.generators), local))

    def _dict_comprehension(self, node: ast.DictComp, local: Local) -> Any:
        pair = ast.Tuple([node.key, node.value], ast.Load())
        return self._run(node, dict, self._list_comprehension(ast.ListComp(pair, node.generators), local))

    def _loops(self, generators: list[ast.comprehension], local: Local) -> Iterable[Local]:
        if not generators:
            yield local
            return
        first, *rest = generators
        for element in self._elements(first.iter, local):
            self.budget.spend()
            inner = {**local, **self._bound(first.target, element)}
            if all(self._truth(test, self.value(test, inner)) for test in first.ifs):
                yield from self._loops(rest, inner)

    def _bound(self, target: ast.expr, value: Any) -> dict[str, object]:
        match target:
            case ast.Name(id=name):
                return {name: plain(value)}
            case ast.Tuple(elts=targets) | ast.List(elts=targets):
                values = self._run(target, items, value)
                if len(values) != len(targets):
                    raise ExpressionError(f"{self._source(target)} needs {len(targets)} values, got {len(values)}")
                pairs = zip(targets, values, strict=True)
                return {name: v for t, inner in pairs for name, v in self._bound(t, inner).items()}
            case _:
                raise ExpressionError(f"{self._source(target)} cannot be the variable of a comprehension")

    def _elements(self, node: ast.expr, local: Local) -> list[Any]:
        value = self.value(node, local)
        elements: list[Any] = self._run(node, items, value)
        self.budget.spend(len(elements))
        return elements

    # parts of values, and calls

    def _attribute(self, node: ast.Attribute, local: Local) -> Any:
        value = self.value(node.value, local)
        match value:
            case HasAttributes():
                return plain(value.expression_attribute(node.attr))
            case Mapping() if node.attr in value:
                return plain(value[node.attr])
            case Mapping() if node.attr in _DICT_METHODS:
                method = _DICT_METHODS[node.attr]
                return SafeFunction(lambda: method(value), node.attr)
            case Mapping():
                hint = did_you_mean(node.attr, map(str, value), listing="keys")
                raise ExpressionError(f"{self._source(node.value)} has no key {node.attr!r}", hint=hint)
            case _:
                text = f"{self._source(node.value)} ({shown(value)}) has no attribute {node.attr!r}"
                raise ExpressionError(text)

    def _subscript(self, node: ast.Subscript, local: Local) -> Any:
        value = self.value(node.value, local)
        key = self._key(node.slice, local)
        match value:
            case Mapping():
                if not self._run(node, lambda: key in value):
                    hint = did_you_mean(str(key), map(str, value), listing="keys")
                    raise ExpressionError(f"{self._source(node.value)} has no key {shown(key)}", hint=hint)
                return plain(value[key])
            case list() | tuple() | str() | range() | RecordList():
                return self._held(self._run(node, operator.getitem, value, key))
            case _:
                raise ExpressionError(f"{self._source(node.value)} ({shown(value)}) has no elements to choose from")

    def _key(self, node: ast.expr, local: Local) -> Any:
        if not isinstance(node, ast.Slice):
            return self._held(self.value(node, local))
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part, local) for part in parts))

    def _call(self, node: ast.Call, local: Local) -> Any:
        function = self.value(node.func, local)
        if not isinstance(function, SafeFunction | NameSet):
            raise ExpressionError(f"{self._source(node.func)} ({shown(function)}) is not a function")
        arguments = self.values(node.args, local)
        options = {word.arg: self.value(word.value, local) for word in node.keywords if word.arg is not None}
        for value in (*arguments, *options.values()):
            self.budget.spend(len(value) if isinstance(value, range) else 1)
            self._held(value)  # a function may look at all of it
        if isinstance(function, SafeFunction) and function.cost is not None:
            self.budget.spend(self._run(node, function.cost, *arguments, **options))
        return self._held(plain(self._run(node, function, *arguments, **options)))

    # helpers

    def _held(self, value: Any) -> Any:
        if type(value) is not float:
            self.budget.hold(value)
        return value

    def _run(self, node: ast.expr, function: Callable[..., Any], *values: Any, **options: Any) -> Any:
        """Call Python; its complaints become ours."""
        try:
            return plain(function(*values, **options))
        except ZeroDivisionError:
            raise ExpressionError(f"division by zero in {self._source(node)}") from None
        except OverflowError:
            raise ExpressionError(f"the result of {self._source(node)} is too large") from None
        except (TypeError, ValueError, ArithmeticError, LookupError, MemoryError) as problem:
            raise ExpressionError(f"{problem} in {self._source(node)}") from None

    def _source(self, node: ast.expr) -> str:
        return quoted(ast.get_source_segment(self.text, node) or ast.unparse(node))


_BY_NODE: Mapping[type[ast.expr], Callable[[Interpreter, Any, Local], Any]] = {
    ast.Constant: Interpreter._constant,
    ast.Name: Interpreter._name,
    ast.List: Interpreter._list,
    ast.Tuple: Interpreter._tuple,
    ast.Set: Interpreter._set,
    ast.Dict: Interpreter._dict,
    ast.BinOp: Interpreter._binary,
    ast.UnaryOp: Interpreter._unary,
    ast.BoolOp: Interpreter._bool_op,
    ast.Compare: Interpreter._compare,
    ast.IfExp: Interpreter._if,
    ast.ListComp: Interpreter._list_comprehension,
    ast.GeneratorExp: Interpreter._list_comprehension,
    ast.SetComp: Interpreter._set_comprehension,
    ast.DictComp: Interpreter._dict_comprehension,
    ast.Attribute: Interpreter._attribute,
    ast.Subscript: Interpreter._subscript,
    ast.Call: Interpreter._call,
}
