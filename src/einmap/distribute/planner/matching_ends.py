"""Layers that follow one another: the result of each lies as the input of the next one does."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.distribute.placements.request import Context
from einmap.einsum.einsum import TensorName
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all

type Ends = tuple[tuple[TensorName, TensorName], ...]
"""Results and the graph inputs that they become."""


def matching_ends(context: Context, asked: Mapping[TensorName, TensorName] | None) -> Ends:
    """Results with the graph inputs as which they lie, rank by rank; `asked`: None for the default.

    A workload of several instances is a stack of layers where one graph input has the shape of its one result: these
    match if nothing is asked for. Raises SpecError (several problems together) for what is not a result or not a graph
    input, and for shapes that differ.
    """
    if asked is None:
        return _of_a_stack(context)
    results, inputs = _results(context), _inputs(context)
    problems: list[EinmapError] = []
    for result, tensor in asked.items():
        if result not in results:
            hint = did_you_mean(result, results, listing="results")
            problems.append(SpecError(f"{result!r} is not a result, which could lie as an input does", hint=hint))
        elif tensor not in inputs:
            hint = did_you_mean(tensor, inputs, listing="graph inputs")
            problems.append(SpecError(f"{tensor!r} is not a graph input, as which {result!r} could lie", hint=hint))
        elif _shape(context, result) != _shape(context, tensor):
            shapes = ["x".join(map(str, _shape(context, one))) for one in (result, tensor)]
            hint = "name a graph input of the same shape"
            problems.append(SpecError(f"{result!r} has the shape {shapes[0]}, {tensor!r} {shapes[1]}", hint=hint))
    raise_all(problems)
    return tuple(asked.items())


def _of_a_stack(context: Context) -> Ends:
    results = _results(context)
    if context.workload.n_instances == 1 or len(results) != 1:
        return ()
    alike = [tensor for tensor in _inputs(context) if _shape(context, tensor) == _shape(context, results[0])]
    return ((results[0], alike[0]),) if len(alike) == 1 else ()


def _results(context: Context) -> list[TensorName]:
    workload = context.workload
    return [tensor for tensor in workload.tensors if not workload.consumers[tensor]]


def _inputs(context: Context) -> list[TensorName]:
    return [tensor for tensor in context.workload.tensors if tensor not in context.workload.producers]


def _shape(context: Context, tensor: TensorName) -> tuple[int, ...]:
    return tuple(context.sizes[tensor].values())
