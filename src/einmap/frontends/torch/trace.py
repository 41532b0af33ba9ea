"""A module as a program, traced by PyTorch on tensors without numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from einmap.errors import At, SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.torch.operators.call import name_of
from einmap.frontends.torch.operators.table import OPERATORS
from einmap.frontends.torch.program import (
    KINDS,
    Facts,
    Given,
    Graph,
    Kind,
    Operation,
    Program,
    Ref,
    Size,
    named_outputs,
)
from einmap.frontends.torch.translate import VIEWS
from einmap.optional import require
from einmap.visible import short

MOST_CONSTANT = 2**16
"""Bytes of a constant or buffer that is read: enough for positions and masks."""


def traced(module: Any, inputs: tuple[Any, ...], keywords: dict[str, Any], dynamic_shapes: Any) -> Program:
    """The program of a module, or of one that is exported: operators of ATen. Where some have no rule, all that have
    none are decomposed to the core of ATen, which takes PyTorch longer than to export.

    Raises SpecError where PyTorch cannot export the module.
    """
    torch = require("torch", "torch")
    try:
        exported = module
        if not isinstance(module, torch.export.ExportedProgram):
            exported = torch.export.export(module, inputs, keywords, dynamic_shapes=dynamic_shapes, strict=False)
        if not all(_is_read(torch, node) for node in exported.graph.nodes):
            table = torch.export.default_decompositions()
            for operator in [*table]:
                if name_of(str(operator)) in OPERATORS:
                    table.pop(operator)
            exported = exported.run_decompositions(table)
    except Exception as error:  # torch.export has many kinds of errors
        first = next(iter(str(error).strip().splitlines()), type(error).__name__)
        raise SpecError(f"PyTorch cannot export the module: {short(first, 300)[1:-1]}") from error
    return _Tracer(torch, exported).program(_names(inputs, keywords, dynamic_shapes))


def _is_read(torch: Any, node: Any) -> bool:
    """Whether a node of a graph is read as it is: an operator with a rule, which writes into no argument or buffer."""
    if node.op != "call_function":
        return bool(node.op != "get_attr")
    if not hasattr(node.target, "_schema"):
        return not isinstance(node.target, torch._ops.HigherOrderOperator)
    name, value = name_of(str(node.target)), node.meta.get("val")
    if name.endswith("_") and not name.endswith("__"):
        return name[:-1] in OPERATORS and bool(node.args) and _root(node.args[0]).op != "placeholder"
    return name in OPERATORS or not (isinstance(value, torch.Tensor | tuple | list))


def _root(node: Any) -> Any:
    """The value that a node is part of, as a view or a place of several; itself where it is not."""
    while node.op == "call_function" and node.args and hasattr(node.args[0], "op"):
        if name_of(str(node.target)) not in VIEWS and getattr(node.target, "__name__", "") != "getitem":
            break
        node = node.args[0]
    return node


def _names(inputs: Any, keywords: Mapping[str, Any], dynamic_shapes: Any) -> list[Mapping[int, str]]:
    """The names of the dimensions of each tensor among the arguments, by axis."""
    if not isinstance(dynamic_shapes, Mapping):
        return [*_leaves([*inputs, *keywords.values()], dynamic_shapes)]
    shapes = [*dynamic_shapes.values()]
    return [*_leaves([*inputs, *keywords.values()], shapes)]


def _leaves(value: Any, shapes: Any) -> Iterator[Mapping[int, str]]:
    """Names of the axes of each tensor in nested arguments, in order."""
    if hasattr(value, "shape"):
        axes = shapes.items() if isinstance(shapes, Mapping) else enumerate(shapes or ())
        names = {axis: name for axis, dim in axes if isinstance(name := getattr(dim, "__name__", None), str)}
        yield {} if shapes is None else names
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, shapes.get(key) if isinstance(shapes, Mapping) else None)
    elif isinstance(value, list | tuple):
        given = list(shapes.values()) if isinstance(shapes, Mapping) else [*(shapes or ())]
        for i, inner in enumerate(value):
            yield from _leaves(inner, given[i] if i < len(given) else None)


class _Tracer:
    """Reads an exported program."""

    def __init__(self, torch: Any, exported: Any) -> None:
        self.torch = torch
        self.exported = exported
        self.renamed: dict[str, str] = {}
        self.facts: dict[str, Facts] = {}
        self.sizes: dict[str, Size] = {}

    def program(self, names: list[Mapping[int, str]]) -> Program:
        """The whole program. `names`: of the axes of the tensors among its arguments."""
        signature, kinds = self.exported.graph_signature, self.torch.export.graph_signature
        nodes = [*self.exported.graph.nodes]
        graph = self.graph(nodes, [spec.arg.name for spec in signature.input_specs])
        given, aliases = [], {}
        tensors = iter(names)
        changed = {spec.target for spec in signature.output_specs if spec.target}
        for spec in signature.input_specs:
            name = spec.arg.name
            if name not in self.facts:
                continue
            is_input = spec.kind == kinds.InputKind.USER_INPUT
            is_read = not is_input and spec.kind != kinds.InputKind.PARAMETER and spec.target not in changed
            array = self.numbers(spec.target) if is_read else None
            given.append(Given(name, name if is_input else spec.target, not is_input, array))
            for axis, alias in next(tensors, {}).items() if is_input else ():
                shape = self.facts[name].shape
                if axis < len(shape) and isinstance(shape[axis], str):
                    aliases[str(shape[axis])] = alias
        states = {kinds.OutputKind.BUFFER_MUTATION, kinds.OutputKind.USER_INPUT_MUTATION}
        results = [
            (spec.target if spec.kind in states else None, Ref(self.renamed.get(spec.arg.name, spec.arg.name)))
            for spec in signature.output_specs
            if getattr(spec.arg, "name", None)
        ]
        ranges = {str(symbol): _ends(limits) for symbol, limits in self.exported.range_constraints.items()}
        return Program("module", graph, tuple(given), named_outputs(results), ranges, aliases)

    def numbers(self, target: str) -> Array | None:
        """The numbers of a small buffer or constant, where it has some."""
        tensor = {**self.exported.state_dict, **self.exported.constants}.get(target)
        if not isinstance(tensor, self.torch.Tensor) or tensor.device.type != "cpu" or tensor.is_complex():
            return None
        if type(tensor).__name__ == "FakeTensor" or tensor.numel() * tensor.element_size() > MOST_CONSTANT:
            return None
        plain = tensor.detach()
        return np.asarray(plain.double().numpy() if plain.is_floating_point() else plain.numpy())

    def graph(self, nodes: list[Any], inputs: list[str]) -> Graph:
        """The operators of a graph."""
        operations: list[Operation] = []
        for number, node in enumerate(nodes):
            value = node.meta.get("val")
            if isinstance(value, self.torch.Tensor):
                self.facts[node.name] = self.facts_of(value)
            elif isinstance(value, self.torch.SymInt | int) and not isinstance(value, bool):
                self.sizes[node.name] = self.size(value)
            if node.op == "call_function":
                operation = self.operation(number, node, value)
                operations += [operation] if operation is not None else []
        results = next((node.args[0] for node in nodes if node.op == "output"), ())
        return Graph(tuple(inputs), tuple(operations), tuple(map(self.plain, results)), self.facts, self.sizes)

    def operation(self, number: int, node: Any, value: Any) -> Operation | None:
        """An operator; None for one that takes a result of another."""
        target = str(node.target) if hasattr(node.target, "_schema") else f"{getattr(node.target, '__name__', 'other')}"
        if target == "getitem" and isinstance(node.args[1], int):
            whole, place = node.args
            self.renamed[node.name] = f"{whole.name}.{place}"
            return None
        outputs: tuple[str, ...] = ()
        if isinstance(value, self.torch.Tensor):
            outputs = (node.name,)
        elif isinstance(value, tuple | list):
            used = {user.args[1] for user in node.users if getattr(user.target, "__name__", "") == "getitem"}
            outputs = tuple(f"{node.name}.{i}" if i in used else "" for i in range(len(value)))
            self.facts.update(
                {f"{node.name}.{i}": self.facts_of(one) for i, one in enumerate(value) if hasattr(one, "shape")}
            )
        schema = getattr(node.target, "_schema", None)
        names = [argument.name for argument in schema.arguments] if schema is not None else []
        arguments = {names[i] if i < len(names) else str(i): self.plain(one) for i, one in enumerate(node.args)} | {
            name: self.plain(one) for name, one in node.kwargs.items()
        }
        at = At("module", path=f"operator {number} ({target} {node.name})")
        return Operation(target, node.name, arguments, outputs, at)

    def facts_of(self, tensor: Any) -> Facts:
        """Shape and type of a tensor."""
        kind = KINDS.get(str(tensor.dtype).removeprefix("torch."), 1)
        return Facts(tuple(self.size(size) for size in tensor.shape), kind)

    def size(self, size: Any) -> Size:
        """A size, or the expression that it is."""
        return str(size.node.expr) if isinstance(size, self.torch.SymInt) and not _is_plain(size) else int(size)

    def plain(self, value: Any) -> Any:
        """An argument as a plain value."""
        if isinstance(value, self.torch.fx.Node):
            return Ref(self.renamed.get(value.name, value.name))
        if isinstance(value, self.torch.dtype):
            return Kind(KINDS.get(str(value).removeprefix("torch."), 1))
        return [self.plain(one) for one in value] if isinstance(value, list | tuple) else value


def _is_plain(size: Any) -> bool:
    return bool(size.node.expr.is_number)


def _ends(limits: Any) -> tuple[int | None, int | None]:
    """The smallest and the largest number of a range; None where there is no such."""
    found = []
    for end in (limits.lower, limits.upper):
        try:
            found.append(int(end) if abs(int(end)) < 2**40 else None)
        except (TypeError, ValueError, OverflowError, AttributeError):
            found.append(None)
    return found[0], found[1]
