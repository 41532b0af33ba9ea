"""A program of PyTorch as a model of ONNX in memory, operator by operator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.cascade.builder import MOST_VALUES
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.model import Model, Node, Tensor, bits_of
from einmap.frontends.torch.operators.call import Aten, Written, name_of
from einmap.frontends.torch.operators.states import put_back
from einmap.frontends.torch.operators.table import OPERATORS
from einmap.frontends.torch.program import Graph, Operation, Program, Ref
from einmap.frontends.torch.sizes import number_of
from einmap.visible import short

OPSET = 23
"""The version of ONNX's operators that are written."""
VIEWS = frozenset({
    "view", "slice", "select", "narrow", "transpose", "permute", "t", "unsqueeze", "squeeze", "expand", "split",
    "split_with_sizes", "chunk", "unbind", "alias", "detach", "reshape", "flatten", "unflatten", "contiguous",
    "view_as", "dropout", "lift_fresh_copy", "_unsafe_view", "movedim", "mT", "numpy_T",
})  # fmt: skip
"""Operators whose result is part of their operand: what is written into one is written into the other."""
_WRAPPERS = (
    "higher_order.wrap_with_set_grad_enabled",
    "higher_order.wrap_with_autocast",
    "higher_order.invoke_subgraph",
)
"""Operators that run a graph of theirs as it is."""
MOST_DEPTH = 20


def model_of(program: Program, symbols: Mapping[str, int], written: Written) -> Model:
    """The model that a program is, for sizes of its symbols, written to `written`. Raises SpecError with the place."""
    scope = _Scope(program.graph, symbols, written)
    inputs: dict[str, Tensor] = {}
    weights: dict[str, Tensor] = {}
    taken = {given.source for given in program.inputs if not given.is_weight}
    for given in program.inputs:
        name = given.name if given.is_weight and given.source in taken else given.source
        tensor = replace(scope.tensor(given.name, name), array=given.array)
        (weights if given.is_weight else inputs)[name] = tensor
        written.names.add(name)
        written.said[name] = tensor
        scope.values[given.name] = name
    before = dict(scope.values)
    scope.run(program.graph)
    outputs = [
        (name, scope.values[value.name]) for name, value in program.outputs if _is_there(value, scope, program.file)
    ]
    said = {name for name, _ in outputs}
    outputs += [
        (f"{given.source}_new", scope.values[given.name])
        for given in program.inputs
        if scope.values[given.name] != before[given.name] and f"{given.source}_new" not in said
    ]
    names = []
    for name, value in outputs:
        names.append(written.free(name))
        at = At(program.file, path=f"output {name}")
        written.nodes.append(Node("Identity", name, (value,), (names[-1],), {}, at))
    return Model(
        program.file, tuple(written.nodes), weights, inputs, tuple(names), OPSET, (), {}, None,
        written.constants, written.said,
    )  # fmt: skip


def _is_there(value: Any, scope: _Scope, file: str) -> bool:
    """Whether a result is a tensor, and not a number. Raises SpecError for one that nothing gives."""
    if isinstance(value, Ref) and value.name not in scope.values and value.name not in scope.graph.sizes:
        raise SpecError(f"nothing gives the result {short(value.name, 60)}", at=At(file))
    return isinstance(value, Ref) and value.name in scope.values


@dataclass(slots=True)
class _Scope:
    """The values of a graph while it is translated, by the names that it has for them.

    `bases`: of a value that is part of another one, that and how it is.
    """

    graph: Graph
    symbols: Mapping[str, int]
    written: Written
    values: dict[str, str] = field(default_factory=dict)
    bases: dict[str, tuple[str, Operation]] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    depth: int = 0

    def tensor(self, name: str, value: str) -> Tensor:
        """Shape and type that the graph says of a value."""
        facts = self.graph.facts[name]
        shape = tuple(number_of(size, self.symbols) for size in facts.shape)
        if min(shape, default=0) < 0 or prod(shape) > MOST_VALUES:
            raise SpecError(f"the shape {[*shape]} of {short(name, 60)} is not one of at most 2**40 values")
        return Tensor(value, shape, bits_of(facts.kind), facts.kind)

    def run(self, graph: Graph) -> None:
        """Translate all operators. Raises SpecError."""
        self.sizes = {name: number_of(size, self.symbols) for name, size in graph.sizes.items()}
        for operation in graph.operations:
            try:
                self.add(operation)
            except SpecError as error:
                if error.at is None:
                    error.at = operation.at
                raise

    def add(self, operation: Operation) -> None:
        """Translate one operator, and what it writes into its operand."""
        name = name_of(operation.target)
        if operation.target in _WRAPPERS:
            self.inline(operation)
            return
        is_written = name.endswith("_") and not name.endswith("__") and isinstance(self.first(operation), Ref)
        if not operation.outputs and not is_written:  # what computes sizes, or checks
            return
        self.written.counts[operation.target] += 1
        if is_written:
            library, _, rest = operation.target.partition(".")
            overload = rest.partition(".")[2]
            operation = replace(operation, target=f"{library}.{name[:-1]}.{overload}")
        results = self.results(operation)
        for output, value in zip(operation.outputs, results, strict=False):
            if output and value:
                if output in self.values:
                    raise SpecError(f"it gives {short(output, 60)}, which is there already")
                self.values[output] = value
                if value not in self.written.said and output in self.graph.facts:
                    self.written.said[value] = self.tensor(output, value)
        given = self.first(operation)
        if isinstance(given, Ref) and given.name in self.values:
            if is_written:
                self.change(given.name, results[0], operation)
                self.bases.update(dict.fromkeys(operation.outputs, (given.name, _ALIAS)))
            elif name in VIEWS:
                self.bases.update(dict.fromkeys(operation.outputs, (given.name, operation)))

    @staticmethod
    def first(operation: Operation) -> Any:
        """The operand that an operator may write into, or be part of."""
        return operation.arguments.get("self", operation.arguments.get("input"))

    def call(self, operation: Operation) -> Aten:
        """An operator with its operands as they are now."""
        facts = self.graph.facts
        said = tuple(self.tensor(name, name) if name in facts else None for name in operation.outputs)
        return Aten(operation, self.written, self.values, self.sizes, said)

    def results(self, operation: Operation) -> list[str]:
        """The values that an operator gives; those of one that is not expressible come from a barrier."""
        call = self.call(operation)
        rule = OPERATORS.get(call.name)
        n_nodes = len(self.written.nodes)
        try:
            if rule is None:
                raise NotExpressible("einmap does not import this operator")
            found = rule(call)
        except NotExpressible as reason:
            del self.written.nodes[n_nodes:]
            return self.barrier(call, str(reason))
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, StopIteration) as error:
            text = f"its arguments do not fit: {short(str(error), 120)[1:-1]}"
            raise SpecError(text, at=operation.at) from None
        return [found] if isinstance(found, str) else found

    def barrier(self, call: Aten, reason: str) -> list[str]:
        """An operator without Einsum form, as one that the reader of ONNX does not know."""
        operation = call.operation
        operands = [
            self.values[one.name]
            for value in operation.arguments.values()
            for one in (value if isinstance(value, list) else [value])
            if isinstance(one, Ref) and one.name in self.values
        ]
        names = [self.written.free(output) for output in operation.outputs or (operation.name,)]
        for output, name in zip(operation.outputs, names, strict=False):
            if output in self.graph.facts:
                self.written.said[name] = self.tensor(output, name)
        self.written.nodes.append(
            Node(operation.target, operation.name, tuple(operands), tuple(names), {}, operation.at)
        )
        self.written.reasons[names[0]] = reason
        return names

    def change(self, name: str, value: str, operation: Operation) -> None:
        """Write a value into another one: into all that this is part of, and all parts of these."""
        path = {name}
        old = self.values[name]
        self.values[name] = self.like(old, value, operation)
        while name in self.bases:
            base, how = self.bases[name]
            before = self.values[base]
            if how is _ALIAS:
                value = self.values[name]
            else:
                call = replace(self.call(replace(how, name=operation.name, at=operation.at)))
                try:
                    value = put_back(call, how.outputs.index(name), before, self.values[name])
                except NotExpressible as reason:
                    (value,) = self.barrier(replace(call, operation=replace(how, outputs=())), str(reason))
            if value not in self.written.said:
                self.written.said[value] = replace(self.written.said[before], name=value)
            self.values[base] = value
            path.add(base)
            name = base
        for part, (base, how) in self.bases.items():
            if part not in path and self.root(part) == name:
                if how is _ALIAS:
                    self.values[part] = self.values[base]
                else:
                    self.values[part] = self.results(how)[how.outputs.index(part)]
                    self.written.said.setdefault(self.values[part], self.tensor(part, self.values[part]))

    def like(self, old: str, value: str, operation: Operation) -> str:
        """A value with the type and the shape of the one that it replaces."""
        call = self.call(operation)
        said = self.written.said[old]
        if value not in self.written.said:
            self.written.said[value] = replace(said, name=value)
        return call.expand(call.cast(value, said.kind), said.shape)

    def root(self, name: str) -> str:
        """The value that a part belongs to."""
        while name in self.bases:
            name = self.bases[name][0]
        return name

    def inline(self, operation: Operation) -> None:
        """A graph that an operator runs, in its place."""
        graph = next((value for value in operation.arguments.values() if isinstance(value, Graph)), None)
        operands = [
            one
            for value in operation.arguments.values()
            for one in (value if isinstance(value, list) else [value])
            if isinstance(one, Ref)
        ]
        if graph is None or len(operands) != len(graph.inputs) or self.depth >= MOST_DEPTH:
            raise SpecError("its graph is missing, or does not fit its operands", at=operation.at)
        inner = _Scope(graph, self.symbols, self.written, depth=self.depth + 1)
        for name, operand in zip(graph.inputs, operands, strict=True):
            if operand.name in self.values:
                inner.values[name] = self.values[operand.name]
        inner.run(graph)
        for output, result in zip(operation.outputs, graph.results, strict=False):
            if isinstance(result, Ref) and result.name in inner.values:
                self.values[output] = inner.values[result.name]


_ALIAS = Operation("", "", {}, (), at=None)  # type: ignore[arg-type]
"""How a value is part of another one that it is as a whole."""
