"""Evaluates the expressions of a template: one method for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jinja2 import nodes

from einmap.errors import At, EinmapError, ManyErrors, SpecError, did_you_mean
from einmap.frontends.yaml.parsing.work import CALL_STEPS, Work
from einmap.frontends.yaml.template.attributes import attribute, item
from einmap.frontends.yaml.template.filters import FILTERS
from einmap.frontends.yaml.template.operators import BINARY, COMPARE, numbers
from einmap.frontends.yaml.template.parse import ASSERT
from einmap.frontends.yaml.template.scope import Scope
from einmap.frontends.yaml.template.tests import TESTS, tested
from einmap.frontends.yaml.template.tools import (
    UndefinedNameError,
    checked,
    defined,
    elements_of,
    key_of,
    pay_text,
    text_of,
    truth,
)
from einmap.frontends.yaml.template.values import Function, Missing, Options, kind

_SHOWN_NAME = 80
_SHOWN = 300
"""Characters of what Python says in a message."""


class Expressions:
    """Evaluates the expressions of the template `file`."""

    def __init__(self, work: Work, file: str, define: Iterable[str]) -> None:
        """`define`: the names of the variables that are given, for suggestions."""
        self.work = work
        self.file = file
        self._define = define

    def value(self, node: nodes.Node, scope: Scope) -> Any:
        """The value of an expression. Raises SpecError with its line."""
        self.work.step()
        try:
            return _BY_NODE[type(node)](self, node, scope)
        except Exception as error:
            raise self.explained(error, node) from None

    def explained(self, error: Exception, node: nodes.Node) -> EinmapError:
        """The error in our words, with the line of `node` unless it has a place."""
        match error:
            case SpecError():
                error.at = error.at if error.at or isinstance(error, ManyErrors) else self.at(node)
                return error
            case EinmapError():
                return error
            case UndefinedNameError():
                return self._undefined(error.missing, self.at(node))
            case RecursionError():
                return SpecError("the template calls itself without end, or is nested too deeply", at=self.at(node))
            case MemoryError():
                return SpecError("the template was stopped: there is not enough memory", at=self.at(node))
            case _:  # Python's complaints about plain values
                text = f"the template failed: {type(error).__name__}: {str(error)[:_SHOWN]}"
                return SpecError(text, at=self.at(node))

    def _undefined(self, missing: Missing, at: At) -> SpecError:
        if missing.name is None:
            return SpecError(f"the template failed: {missing.text}", at=at)
        name = missing.name[:_SHOWN_NAME]
        hint = f"pass it: -D {name}=VALUE, or load(..., define={{{name!r}: ...}})"
        if define := sorted(self._define):
            hint += "; " + did_you_mean(name, define, listing="given variables")
        return SpecError(f"template variable {name} is not defined", at=at, hint=hint)

    def at(self, node: nodes.Node) -> At:
        """The line of a node."""
        return At(self.file, node.lineno)

    def values(self, expressions: list[nodes.Expr], scope: Scope) -> list[Any]:
        """The values of several expressions."""
        return [self.value(node, scope) for node in expressions]

    # literals and names

    def _constant(self, node: nodes.Const, _scope: Scope) -> Any:
        if not isinstance(node.value, str | int | float | None):
            raise TypeError("this is not a constant")
        return checked(self.work, node.value)

    def _data(self, node: nodes.TemplateData, _scope: Scope) -> Any:
        return node.data

    def _name(self, node: nodes.Name, scope: Scope) -> Any:
        return scope.get(node.name)

    def _list(self, node: nodes.List, scope: Scope) -> Any:
        return checked(self.work, self.values(node.items, scope))

    def _tuple(self, node: nodes.Tuple, scope: Scope) -> Any:
        return checked(self.work, tuple(self.values(node.items, scope)))

    def _dict(self, node: nodes.Dict, scope: Scope) -> Any:
        pairs = [(key_of(self.value(pair.key, scope)), self.value(pair.value, scope)) for pair in node.items]
        return checked(self.work, dict(pairs))

    # operators

    def _binary(self, node: nodes.BinExpr, scope: Scope) -> Any:
        """A chain `a + b + c` is a loop, since it may be longer than Python's stack is deep."""
        chain = [node]
        while type(chain[-1].left) in _CHAINED:
            self.work.step()
            chain.append(chain[-1].left)  # type: ignore[arg-type]
        total = self.value(chain[-1].left, scope)
        for step in reversed(chain):
            total = BINARY[type(step).__name__](self.work, total, self.value(step.right, scope))
        return total

    def _negative(self, node: nodes.UnaryExpr, scope: Scope) -> Any:
        operand = self.value(node.node, scope)
        numbers(node.operator, operand, operand)
        return -operand if isinstance(node, nodes.Neg) else +operand

    def _not(self, node: nodes.Not, scope: Scope) -> bool:
        return not truth(self.value(node.node, scope))

    def _and(self, node: nodes.And, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return self.value(node.right, scope) if truth(left) else left

    def _or(self, node: nodes.Or, scope: Scope) -> Any:
        left = self.value(node.left, scope)
        return left if truth(left) else self.value(node.right, scope)

    def _if(self, node: nodes.CondExpr, scope: Scope) -> Any:
        if truth(self.value(node.test, scope)):
            return self.value(node.expr1, scope)
        if node.expr2 is None:
            return Missing("the condition of an `if` without `else` is false", blank=True)
        return self.value(node.expr2, scope)

    def _compare(self, node: nodes.Compare, scope: Scope) -> bool:
        left = self.value(node.expr, scope)
        for operand in node.ops:
            right = self.value(operand.expr, scope)
            if not COMPARE[operand.op](self.work, left, right):
                return False
            left = right
        return True

    def _concat(self, node: nodes.Concat, scope: Scope) -> str:
        texts = [text_of(self.work, value) for value in self.values(node.nodes, scope)]
        pay_text(self.work, sum(map(len, texts)))
        return "".join(texts)

    # parts of values

    def _attribute(self, node: nodes.Getattr, scope: Scope) -> Any:
        return attribute(self.work, self.value(node.node, scope), node.attr)

    def _item(self, node: nodes.Getitem, scope: Scope) -> Any:
        value = self.value(node.node, scope)
        if isinstance(node.arg, nodes.Slice):
            ends = (node.arg.start, node.arg.stop, node.arg.step)
            return item(self.work, value, slice(*(None if end is None else self._end(end, scope) for end in ends)))
        return item(self.work, value, self.value(node.arg, scope))

    def _end(self, node: nodes.Expr, scope: Scope) -> int | None:
        value = self.value(node, scope)
        if value is not None and not isinstance(value, int):
            raise TypeError("the ends of a slice are integers")
        return value

    # calls, filters and tests

    def _call(self, node: nodes.Call, scope: Scope) -> Any:
        if isinstance(node.node, nodes.ExtensionAttribute):
            return self._failed_assertion(node, scope)
        function = defined(self.value(node.node, scope))
        arguments, options = self.arguments(node, scope)
        return self.called(function, arguments, options)

    def called(self, function: Any, arguments: list[Any], options: Options) -> Any:
        """Result of a function or macro."""
        if not isinstance(function, Function):
            raise TypeError(f"{kind(function)} cannot be called")
        self.work.step(CALL_STEPS)
        return function.call(arguments, options)

    def _failed_assertion(self, node: nodes.Call, scope: Scope) -> Any:
        if not isinstance(node.node, nodes.ExtensionAttribute) or node.node.identifier != ASSERT:
            raise TypeError("this cannot be called")
        raise SpecError(text_of(self.work, self.value(node.args[0], scope)))

    def arguments(self, node: Any, scope: Scope) -> tuple[list[Any], Options]:
        """The arguments and keywords of a call, a filter or a test."""
        arguments = self.values(node.args, scope)
        options = {word.key: self.value(word.value, scope) for word in node.kwargs}
        if node.dyn_args is not None:
            arguments += elements_of(self.work, self.value(node.dyn_args, scope))
        if node.dyn_kwargs is not None:
            more = defined(self.value(node.dyn_kwargs, scope))
            if not isinstance(more, dict) or not all(isinstance(key, str) for key in elements_of(self.work, more)):
                raise TypeError("** takes a dictionary with texts as keys")
            if twice := options.keys() & more.keys():
                raise TypeError(f"the keyword {min(twice)!r:.80} is given twice")
            options |= more
        return arguments, options

    def _filter(self, node: nodes.Filter, scope: Scope) -> Any:
        assert node.node is not None
        value = self.value(node.node, scope)
        return self.filtered(node.name, value, *self.arguments(node, scope))

    def filtered(self, name: str, value: Any, arguments: list[Any], options: Options) -> Any:
        """`value | name(...)`."""
        self.work.step(CALL_STEPS)
        function = _named(FILTERS, name, "filter")
        return function(self, value if name in _TAKING_MISSING else defined(value), *arguments, **options)

    def _test(self, node: nodes.Test, scope: Scope) -> bool:
        value = self.value(node.node, scope)
        return self.tested(node.name, value, *self.arguments(node, scope))

    def tested(self, name: str, value: Any, arguments: list[Any], options: Options) -> bool:
        """`value is name(...)`."""
        _named(TESTS, name, "test")
        return tested(self.work, name, value, arguments, options)


_TAKING_MISSING = ("d", "default", "items")
_CHAINED = (nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow)


def _named[T](table: Mapping[str, T], name: Any, what: str) -> T:
    if not isinstance(name, str):
        raise TypeError(f"the name of a {what} is a text, found {kind(name)}")
    if name not in table:
        hint = did_you_mean(name[:80], table, listing=f"{what}s")
        raise SpecError(f"templates have no {what} {name[:80]!r}", hint=hint)
    return table[name]


_BY_NODE: Mapping[type[nodes.Node], Callable[[Expressions, Any, Scope], Any]] = {
    nodes.Const: Expressions._constant,
    nodes.TemplateData: Expressions._data,
    nodes.Name: Expressions._name,
    nodes.List: Expressions._list,
    nodes.Tuple: Expressions._tuple,
    nodes.Dict: Expressions._dict,
    **dict.fromkeys(_CHAINED, Expressions._binary),
    **dict.fromkeys((nodes.Neg, nodes.Pos), Expressions._negative),
    nodes.Not: Expressions._not,
    nodes.And: Expressions._and,
    nodes.Or: Expressions._or,
    nodes.CondExpr: Expressions._if,
    nodes.Compare: Expressions._compare,
    nodes.Concat: Expressions._concat,
    nodes.Getattr: Expressions._attribute,
    nodes.Getitem: Expressions._item,
    nodes.Call: Expressions._call,
    nodes.Filter: Expressions._filter,
    nodes.Test: Expressions._test,
}
