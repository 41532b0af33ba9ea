"""Runs the statements of a template: one method for each kind of node."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jinja2 import nodes

from einmap.errors import At, NotSupportedError, SpecError
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.expressions import Expressions
from einmap.frontends.yaml.template.page import Capture, Out
from einmap.frontends.yaml.template.scope import Scope
from einmap.frontends.yaml.template.tools import defined, elements_of, text_of, truth
from einmap.frontends.yaml.template.values import Function, LoopVariable, Missing, Module, Namespace, Options, kind

type Other = Callable[[Any, Scope | None, Out], Scope]
"""Runs another file, by the name that a template gives; a scope that it sees or none; its own names come back."""


class Statements(Expressions):
    """Runs the statements of one template. `other` runs another one, for `include` and `import`."""

    def __init__(self, work: Work, file: str, define: Mapping[str, object], other: Other) -> None:
        super().__init__(work, file, define)
        self._other = other
        self._free: dict[int, frozenset[str]] = {}

    def run(self, body: list[nodes.Node], scope: Scope, out: Out) -> None:
        """Run statements that write to `out`. Raises SpecError with the line."""
        for node in body:
            self.work.step()
            try:
                _BY_NODE[type(node)](self, node, scope, out)
            except Exception as error:
                raise self.explained(error, node) from None

    def captured(self, body: list[nodes.Node], scope: Scope) -> str:
        """Text that statements write."""
        out = Capture(self.work)
        self.run(body, scope, out)
        return out.text()

    def _refused(self, node: nodes.Node, _scope: Scope, _out: Out) -> None:
        line = node.lineno or next((inner.lineno for inner in node.iter_child_nodes() if inner.lineno), 1)
        text = f"templates do not support {_REFUSED[type(node)]}"
        raise NotSupportedError(text, at=At(self.file, line), hint="use macros and include")

    # writing

    def _output(self, node: nodes.Output, scope: Scope, out: Out) -> None:
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                out.data(part.data, part.lineno)
            else:
                out.write(self._written(part, scope), part.lineno)

    def _written(self, node: nodes.Expr, scope: Scope) -> str:
        value = self.value(node, scope)
        try:
            return text_of(self.work, value)
        except Exception as error:
            raise self.explained(error, node) from None

    def _expression(self, node: nodes.ExprStmt, scope: Scope, _out: Out) -> None:
        self.value(node.node, scope)

    # choices and loops

    def _choice(self, node: nodes.If, scope: Scope, out: Out) -> None:
        for branch in (node, *node.elif_):
            if truth(self.value(branch.test, scope)):
                return self.run(branch.body, scope, out)
        return self.run(node.else_, scope, out)

    def _for(self, node: nodes.For, scope: Scope, out: Out) -> None:
        if node.recursive:
            raise NotSupportedError("recursive loops are not supported in templates", hint="write a macro")
        values = elements_of(self.work, self.value(node.iter, scope))
        if node.test is not None:
            values = [value for value in values if truth(self.value(node.test, self._with(node.target, value, scope)))]
        loop = LoopVariable(values)
        for loop.at, value in enumerate(values):
            self.work.step()
            inner = self._with(node.target, value, scope)
            inner.names.setdefault("loop", loop)
            self.run(node.body, inner, out)
        if not values:
            self.run(node.else_, scope.inner(), out)

    def _with(self, target: nodes.Node, value: Any, scope: Scope) -> Scope:
        inner = scope.inner()
        self.assign(target, value, inner)
        return inner

    def _with_block(self, node: nodes.With, scope: Scope, out: Out) -> None:
        inner = scope.inner()
        for target, value in zip(node.targets, self.values(node.values, scope), strict=True):
            self.assign(target, value, inner)
        self.run(node.body, inner, out)

    def _block(self, node: nodes.Block, scope: Scope, out: Out) -> None:
        self.run(node.body, scope.inner(), out)

    # names

    def assign(self, target: nodes.Node, value: Any, scope: Scope) -> None:
        """Set a name of `scope`, several, or a field of a namespace."""
        match target:
            case nodes.Name():
                scope.names[target.name] = value
            case nodes.Tuple():
                values = elements_of(self.work, value)
                if len(values) != len(target.items):
                    raise ValueError(f"{len(target.items)} names for {len(values)} values")
                for inner, element in zip(target.items, values, strict=True):
                    self.assign(inner, element, scope)
            case nodes.NSRef():
                space = defined(scope.get(target.name))
                if not isinstance(space, Namespace):
                    raise TypeError(f"{target.name} is {kind(space)}; only fields of a namespace can be set")
                space.names[target.attr] = value
            case _:
                raise TypeError("this cannot be set")

    def _assignment(self, node: nodes.Assign, scope: Scope, _out: Out) -> None:
        self.assign(node.target, self.value(node.node, scope), scope)

    def _block_assignment(self, node: nodes.AssignBlock, scope: Scope, _out: Out) -> None:
        text = self.captured(node.body, scope.inner())
        self.assign(node.target, text if node.filter is None else self._through(node.filter, text, scope), scope)

    def _filter_block(self, node: nodes.FilterBlock, scope: Scope, out: Out) -> None:
        text = self._through(node.filter, self.captured(node.body, scope.inner()), scope)
        out.write(text_of(self.work, text), node.lineno)

    def _through(self, node: nodes.Filter, value: Any, scope: Scope) -> Any:
        """`value` through a chain of filters that has no value of its own."""
        chain = [node]
        while isinstance(chain[-1].node, nodes.Filter):
            chain.append(chain[-1].node)
        for step in reversed(chain):
            value = self.filtered(step.name, value, *self.arguments(step, scope))
        return value

    # macros

    def _macro_statement(self, node: nodes.Macro, scope: Scope, _out: Out) -> None:
        scope.names[node.name] = self._macro(node, node.name, scope)

    def _call_block(self, node: nodes.CallBlock, scope: Scope, out: Out) -> None:
        function = defined(self.value(node.call.node, scope))
        arguments, options = self.arguments(node.call, scope)
        result = self.called(function, arguments, options | {"caller": self._macro(node, "caller", scope)})
        out.write(text_of(self.work, result), node.lineno)

    def _macro(self, node: nodes.Macro | nodes.CallBlock, name: str, scope: Scope) -> Function:
        def call(arguments: list[Any], options: Options) -> str:
            inner = self._bound(node, name, arguments, dict(options), scope)
            return self.captured(node.body, inner)

        return Function(name, call)

    def _bound(
        self, node: nodes.Macro | nodes.CallBlock, name: str, arguments: list[Any], options: Options, scope: Scope
    ) -> Scope:
        """The names that a macro sees when it is called."""
        names = [argument.name for argument in node.args]
        used = self._names_in(node)
        inner = scope.inner(dict(zip(names, arguments, strict=False)))
        for argument in names[len(arguments) :]:
            if argument in options:
                inner.names[argument] = options.pop(argument)
        if "caller" in used and "caller" not in names:
            inner.names["caller"] = options.pop("caller", Missing("no caller is defined"))
        if "varargs" in used:
            inner.names["varargs"] = tuple(arguments[len(names) :])
        elif len(arguments) > len(names):
            raise TypeError(f"macro {name!r} takes not more than {len(names)} arguments")
        if "kwargs" in used:
            inner.names["kwargs"] = options
        elif options:
            raise TypeError(f"macro {name!r} takes no keyword {min(options)!r:.80}")
        for argument, default in zip(names[len(names) - len(node.defaults) :], node.defaults, strict=True):
            if argument not in inner.names:
                inner.names[argument] = self.value(default, inner)
        for argument in names:
            inner.names.setdefault(argument, Missing(f"parameter {argument!r} was not provided"))
        return inner

    def _names_in(self, node: nodes.Node) -> frozenset[str]:
        if id(node) not in self._free:
            self._free[id(node)] = frozenset(name.name for name in node.find_all(nodes.Name))
        return self._free[id(node)]

    # other files

    def _include(self, node: nodes.Include, scope: Scope, out: Out) -> None:
        name = self.value(node.template, scope)
        names = elements_of(self.work, name) if isinstance(name, list | tuple) else [name]
        self._first_there(names, node.ignore_missing, scope if node.with_context else None, out)

    def _first_there(self, names: list[Any], ignore_missing: bool, scope: Scope | None, out: Out) -> None:
        for position, name in enumerate(names):
            is_last = position == len(names) - 1 and not ignore_missing
            try:
                self._other(name, scope, out)
            except TemplateMissingError:
                if is_last:
                    raise
            else:
                return

    def _import(self, node: nodes.Import, scope: Scope, _out: Out) -> None:
        scope.names[node.target] = Module(self.file, self._module(node, scope))

    def _from_import(self, node: nodes.FromImport, scope: Scope, _out: Out) -> None:
        module = self._module(node, scope)
        for name in node.names:
            source, target = name if isinstance(name, tuple) else (name, name)
            missing = Missing(f"the imported template does not have {source!r}")
            scope.names[target] = module.get(source, missing)

    def _module(self, node: nodes.Import | nodes.FromImport, scope: Scope) -> dict[str, Any]:
        """The names that another file sets, those that start with an underscore left out."""
        name = self.value(node.template, scope)
        top = self._other(name, scope if node.with_context else None, Capture(self.work))
        return {name: value for name, value in top.names.items() if not name.startswith("_")}


class TemplateMissingError(SpecError):
    """The file that a template includes is not there."""


_REFUSED: dict[type[nodes.Node], str] = {nodes.Extends: "extends", nodes.Scope: "autoescape"}
_BY_NODE: Mapping[type[nodes.Node], Callable[[Statements, Any, Scope, Out], None]] = {
    nodes.Output: Statements._output,
    nodes.ExprStmt: Statements._expression,
    nodes.If: Statements._choice,
    nodes.For: Statements._for,
    nodes.With: Statements._with_block,
    nodes.Block: Statements._block,
    nodes.Assign: Statements._assignment,
    nodes.AssignBlock: Statements._block_assignment,
    nodes.FilterBlock: Statements._filter_block,
    nodes.Macro: Statements._macro_statement,
    nodes.CallBlock: Statements._call_block,
    nodes.Include: Statements._include,
    nodes.Import: Statements._import,
    nodes.FromImport: Statements._from_import,
    **dict.fromkeys(_REFUSED, Statements._refused),
}
