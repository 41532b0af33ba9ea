"""A whole TFLite model: its operators as nodes of ONNX, these as a cascade of Einsums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.cascade.imported import NOTHING, Imported, checked_batch
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.files import reading
from einmap.frontends.onnx.model import Model as Nodes
from einmap.frontends.onnx.model import Node
from einmap.frontends.onnx.read import import_nodes
from einmap.frontends.tflite.graph import Graph, Step
from einmap.frontends.tflite.model import Model, read_file
from einmap.frontends.tflite.operators import OPERATORS

OPSET = 21
"""The version of ONNX whose operators are written."""


def from_tflite(
    path: str | Path, *, batch: int | None = None, bits: int | None = None, strict: bool = False
) -> Imported:
    """The cascade of Einsums of a TFLite (LiteRT) model: its first graph.

    `batch`: the first dimension of every input, in place of that in the file; `bits`: of each number, in place of what
    the types say; `strict`: an operator without Einsum form is an error. Integers with scales stand for fractions:
    results are rounded once, to the nearest integer of their scale. Raises SpecError with the place in the file.
    """
    batch = checked_batch(batch, str(path))
    model = read_file(Path(path))
    graph, reasons = nodes_of(model, batch)
    read = {name for node in graph.nodes for name in node.inputs}
    leaves = [t for i, t in enumerate(model.tensors) if i in model.inputs or (t.is_variable and t.name in read)]
    inputs = {t.name: replace(graph.stored(t), shape=_shape(t.shape, batch), array=None) for t in leaves}
    outputs = tuple(model.tensors[i].name for i in model.outputs if i >= 0)
    declared = {name: graph.shapes[name].shape for name in outputs} if graph.batch is None else {}
    at = model.file
    nodes = Nodes(at, tuple(graph.nodes), graph.initialisers, inputs, outputs, OPSET, (), declared, None)
    result = import_nodes(nodes, bits, strict=strict, shapes=graph.shapes, reasons=reasons)
    return replace(result, operators=dict(Counter(operator.name for operator in model.operators)))


def read_tflite(path: Path, define: Mapping[str, object]) -> tuple[Imported, tuple[str, ...]]:
    """A model among files of a specification, and the name in `define` that it knows: `batch`.

    Raises SpecError where nothing is computed.
    """
    if (noted := reading()) is not None:
        noted.variables.add("batch")
    batch: Any = define.get("batch")  # checked there
    result = from_tflite(path, batch=batch)
    if not result.workload:
        raise SpecError(NOTHING, at=At(str(path)))
    return result, ("batch",)


def nodes_of(model: Model, batch: int | None) -> tuple[Graph, dict[str, str]]:
    """The nodes of all operators, and why some have none, by the name of their first result."""
    sizes = {model.tensors[i].shape[0] for i in model.inputs if i >= 0 and model.tensors[i].shape}
    old = next(iter(sizes)) if len(sizes) == 1 else None
    graph = Graph(model, None if batch is None or old in (None, batch) else (old, batch))
    reasons: dict[str, str] = {}
    inputs = {*model.inputs}
    given = {i for operator in model.operators for i in operator.outputs}
    for i, tensor in enumerate(model.tensors):
        graph.shapes[tensor.name] = graph.stored(tensor)
        if tensor.constant and i not in given and i not in inputs:
            graph.initialisers[tensor.name] = graph.stored(tensor)
    for operator in model.operators:
        step = Step(graph, operator)
        try:
            if operator.name not in OPERATORS:
                raise NotExpressible("einmap does not import this operator")
            OPERATORS[operator.name](step)
            graph.nodes += step.nodes
        except NotExpressible as reason:
            operands, results = (
                tuple(model.tensors[i].name if i >= 0 else "" for i in places)
                for places in (operator.inputs, operator.outputs)
            )
            graph.nodes.append(Node(operator.name, "", operands, results, {}, operator.at))
            reasons.update((name, str(reason)) for name in results[:1])
    return graph, reasons


def _shape(shape: tuple[int, ...], batch: int | None) -> tuple[int, ...]:
    return shape if batch is None or not shape else (batch, *shape[1:])
