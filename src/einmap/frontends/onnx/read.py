"""A whole model, operator by operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from einmap.errors import At, EinmapError, Note, SpecError, did_you_mean
from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.imported import (
    NOTHING,
    Barrier,
    Imported,
    Joined,
    checked_batch,
    imported,
    is_given,
    kept_in_place,
)
from einmap.frontends.cascade.parts import Parts, whole
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value, known
from einmap.frontends.cascade.views import LayoutError
from einmap.frontends.files import reading
from einmap.frontends.onnx.barriers import Surroundings, products_of, results_of
from einmap.frontends.onnx.composed.body import OPSET, Body
from einmap.frontends.onnx.composed.table import COMPOSED
from einmap.frontends.onnx.kinds import FLOAT, INT64, INTEGERS, kinds_of_results
from einmap.frontends.onnx.model import Model, Node, Tensor, bits_of, graph_of, names_read, read_model
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.concatenation import CONCATENATIONS, by_parts, joined
from einmap.frontends.onnx.operators.constants import constant, folded, shape_of
from einmap.frontends.onnx.operators.table import OPERATORS
from einmap.frontends.onnx.recurrent.table import RECURRENT
from einmap.frontends.onnx.values import input_values, unknown_condition
from einmap.visible import short

KNOWN = frozenset(
    {*OPERATORS, *RECURRENT, *CONCATENATIONS, *COMPOSED, "Constant", "ConstantOfShape", "If", "Range", "Shape", "Size"}
)
"""Operators that are imported; each may have uses that are not."""
WITHOUT_PARAMETERS = (
    "the file has no initializers, so it may be saved without parameters; with "
    "`save(path, include_initializers=False, keep_initializers_as_inputs=True)` torch.onnx keeps their shapes"
)
STATIC = "import a model with static shapes: exporters and simplifiers can write them"


def from_onnx(
    path: str | Path,
    *,
    dimensions: Mapping[str, object] | None = None,
    batch: int | None = None,
    bits: int | None = None,
    strict: bool = False,
    values: Mapping[str, object] | None = None,
    instances: bool = False,
) -> Imported:
    """The cascade of Einsums of an ONNX model.

    `dimensions`: sizes of those that the model leaves open, by name; `batch`: the first dimension of every input.
    `bits`: of each number, in place of what the types of the model say. `strict`: an operator without Einsum form is an
    error, and not a barrier, where the cascade ends and goes on. `values`: of inputs of the model that are known, by
    name, numbers or lists of numbers: by them an `If` takes its branch; such an input is not one of the cascade.
    `instances`: equal layers are one with `n_instances`, which exchanges values with the rest by the outermost memory.

    Weights are not loaded; of external data only tensors of at most 64 KiB are. Raises SpecError with the place in the
    model: for files that are damaged, dimensions that are open, and with `strict` for all operators that have no Einsum
    form, with counts.
    """
    sizes = dimensions or {}
    model = read_model(Path(path), sizes, checked_batch(batch, str(path)), KNOWN)
    for name in sizes:
        if name not in model.open_dimensions:
            hint = did_you_mean(name, model.open_dimensions, listing="open dimensions")
            hint = "it is an input: give its value with --value" if name in model.inputs else hint
            raise SpecError(f"no input has an open dimension {name}", at=At(model.file), hint=hint)
    return import_nodes(model, bits, input_values(model, values or {}), strict=strict, instances=instances)


def import_nodes(
    model: Model,
    bits: int | None,
    values: Mapping[str, Array] | None = None,
    *,
    strict: bool = False,
    instances: bool = False,
    shapes: Mapping[str, Tensor] | None = None,
    reasons: Mapping[str, str] | None = None,
) -> Imported:
    """The cascade of nodes of ONNX, whatever file they come from; the others as `from_onnx` takes them.

    `shapes`: of values, where ONNX is not asked for those of operators without Einsum form; `reasons`: why such an
    operator has none, by its first result. Raises SpecError.
    """
    result = _Importer(model, bits, values or {}, shapes=shapes, reasons=reasons or {}).run(instances=instances)
    if strict and result.barriers:
        raise _refusal(result, model)
    return result


def read_onnx(path: Path, define: Mapping[str, object]) -> tuple[Imported, tuple[str, ...]]:
    """A model among files of a specification, and the names of `define` that it knows, which may have others: of
    dimensions that it leaves open, and of inputs whose values are given. Raises SpecError where nothing is computed.
    """
    model = read_model(path, define, imported=KNOWN)
    values = {name: value for name, value in define.items() if name in {*model.inputs} - {*model.open_dimensions}}
    if (noted := reading()) is not None:
        noted.variables.update(values)
    result = _Importer(model, None, input_values(model, values)).run()
    if not result.workload:
        raise SpecError(NOTHING, at=At(model.file))
    return result, (*model.open_dimensions, *values)


def _refusal(result: Imported, model: Model) -> SpecError:
    counts = ", ".join(f"{kind} ({n})" for kind, n in sorted(result.barrier_counts.items()))
    first = result.barriers[0]
    return SpecError(
        f"operators without Einsum form: {counts}; the first: {first.reason}",
        at=At(model.file, path=first.at),
        hint="without --strict they become barriers: their operands and results pass through the outermost memory",
    )


@dataclass(slots=True)
class _Importer:
    """The values of a model by name, while it is read."""

    model: Model
    bits: int | None
    given: Mapping[str, Array] = field(default_factory=dict)
    builder: Builder = field(default_factory=Builder)
    values: dict[str, Value | Parts] = field(default_factory=dict)
    barriers: list[Barrier] = field(default_factory=list)
    written_out: dict[str, Value] = field(default_factory=dict)
    readers: Counter[str] = field(default_factory=Counter)
    kinds: dict[str, int] = field(default_factory=dict)
    shapes: Mapping[str, Tensor] | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)

    def run(self, *, instances: bool = False) -> Imported:
        """The cascade of the whole model. Raises SpecError."""
        model = self.model
        self.readers = Counter(name for node in model.nodes for name in names_read(node))
        self.readers.update(model.outputs)
        del self.readers[""]
        for name, tensor in {**model.inputs, **model.initialisers}.items():
            self.values[name] = self.leaf(tensor, is_weight=name in model.initialisers)
            self.kinds[name] = tensor.kind
        for name, tensor in model.constants.items():
            assert tensor.array is not None
            self.values[name], self.kinds[name] = known(tensor.array, tensor.bits), tensor.kind
        for node in model.nodes:
            try:
                self.add(node)
            except EinmapError as error:
                if isinstance(error, SpecError) and error.at is None:
                    error.at = node.at
                raise
        outputs, joined = self.outputs()
        about = {
            "joined": joined,
            "operators": dict(Counter(node.operator for node in model.nodes)),
            "barriers": tuple(self.barriers),
            "constants": {
                name: constant.array
                for name in model.outputs
                if name not in outputs and isinstance(constant := self.values[name], Value)
            },
        }
        try:
            result = imported(self.builder, outputs, self.written_out, about, tuple(self.notes()), instances=instances)
            return replace(result, notes=(*self.first_notes(result), *result.notes))
        except SpecError as error:
            if error.at is None:
                error.at = At(model.file)
            raise

    def first_notes(self, result: Imported) -> list[Note]:
        """That a cascade has few products, where operators without Einsum form hide them."""
        at = At(self.model.file)
        if (text := result.hidden_text) is not None:
            return [Note(text, at)]
        if result.n_multiply_accumulates or not result.barriers:
            return []
        return [Note("0 products that are summed: all lies between operators without Einsum form", at)]

    def notes(self) -> list[Note]:
        """Notes for users: barriers by kind."""
        counts = Counter((barrier.operator, barrier.reason) for barrier in self.barriers)
        hidden: Counter[tuple[str, str]] = Counter()
        for barrier in self.barriers:
            hidden[barrier.operator, barrier.reason] += barrier.n_products
        return [
            Note(
                f"{n} x {kind[0]} without Einsum form ({kind[1]}): a barrier, whose operands and results pass through "
                f"the outermost memory{f'; it hides about {hidden[kind]:,} products' if hidden[kind] else ''}",
                At(self.model.file),
            )
            for kind, n in counts.items()
        ]

    def leaf(self, tensor: Tensor, *, is_weight: bool) -> Value:
        """An input or initialiser as a value; one without values, or known integers, is not a tensor of the cascade."""
        bits = tensor.bits if self.bits is None else self.bits
        array = tensor.array
        if tensor.name in self.given and not is_weight:
            return known(self.given[tensor.name], bits)
        if 0 in tensor.shape:  # as an empty cache: all of its numbers, none, are known
            return known(np.zeros(tensor.shape, np.int64 if tensor.kind in INTEGERS else np.float64), bits)
        value = self.builder.graph_input(tensor.name, tensor.shape, bits, tensor.name, weight=is_weight, array=array)
        return replace(value, array=array)

    def add(self, node: Node, opset: int = 0) -> None:
        """Import one operator, of the version of the model or another. Raises SpecError for one that is not sane."""
        operands: list[Value | Parts | None] = []
        for name in node.inputs:
            if name and name not in self.values:
                text = f"it reads {short(name, 60)}, which nothing before it gives"
                raise SpecError(text, at=node.at, hint=self.where_given(name))
            operands.append(self.values[name] if name else None)
        if not any(node.outputs):
            return
        plain = tuple(None if isinstance(value, Parts) else value for value in operands)
        if node.operator == "If" and self.take_branch(node, operands):
            return
        kinds = tuple(self.kinds.get(name, FLOAT) for name in node.inputs)
        self.kinds.update(zip(node.outputs, kinds_of_results(node, self.kinds), strict=True))
        said = self.model.said
        self.kinds.update({name: said[name].kind for name in node.outputs if name in said})
        call = Call(self.builder, self.name_of(node), node, plain, opset or self.model.opset, kinds, self.readers)
        try:
            if node.operator in COMPOSED:
                self.compose(call, operands)
                return
            results = self.results(call, tuple(operands))
        except (NotExpressible, LayoutError) as reason:
            if opset:  # of a body: the operator that it stands for is the barrier
                raise
            self.add_barrier(node, operands, str(reason), reason.hint if isinstance(reason, NotExpressible) else None)
            return
        for name, value in zip(node.outputs, results, strict=False):
            if name:
                if name in said and value.shape != said[name].shape:
                    text = f"the model says the shape {[*said[name].shape]} of its result, it gives {[*value.shape]}"
                    raise SpecError(text, at=node.at)
                self.give(name, value, node)

    def take_branch(self, node: Node, operands: Sequence[Value | Parts | None]) -> bool:
        """Import one branch of an `If` whose condition is known, and say whether it is."""
        condition = operands[0].array if operands and isinstance(operands[0], Value) else None
        if condition is None or condition.size != 1:
            return False
        branch = node.attributes.get("then_branch" if condition.reshape(-1)[0] else "else_branch")
        nodes, initialisers, outputs = graph_of(branch, self.model.file, node.at)
        if len(outputs) != len(node.outputs):
            raise SpecError(f"its branch gives {len(outputs)} results, not {len(node.outputs)}", at=node.at)
        for tensor in initialisers:
            self.values[tensor.name], self.kinds[tensor.name] = self.leaf(tensor, is_weight=True), tensor.kind
        for inner in nodes:
            self.add(inner)
        for name, given in zip(node.outputs, outputs, strict=True):
            if given not in self.values:
                raise SpecError(f"nothing gives the output {short(given, 60)} of its branch", at=node.at)
            self.kinds[name] = self.kinds.get(given, FLOAT)
            self.give(name, self.values[given], node)
        return True

    def compose(self, call: Call, operands: Sequence[Value | Parts | None]) -> None:
        """Import the operators that an operator stands for. Raises NotExpressible where it has no body."""
        for name, value in zip(call.node.inputs, operands, strict=True):
            if isinstance(value, Value) and value.array is None and not value.is_view:
                self.values[name] = self.builder.kept(value, name)
        body = Body(call, operands)
        COMPOSED[call.node.operator](body)
        nodes, results = body.needed(), body.used_results()
        self.readers.update(name for node in nodes for name in node.inputs)
        self.readers.update(results.values())
        for name, array in body.constants.items():
            self.values[name] = known(array, bits_of(FLOAT))
            self.kinds[name] = INT64 if array.dtype.kind == "i" else FLOAT
        for node in nodes:
            self.add(node, OPSET)
        for place, given in results.items():
            name = call.node.outputs[place]
            self.kinds[name] = self.kinds[given]
            self.give(name, self.values[given], call.node)
        for inner in (*body.constants, *(name for node in nodes for name in node.outputs)):
            self.values.pop(inner, None)

    def results(self, call: Call, operands: tuple[Value | Parts | None, ...]) -> list[Value | Parts]:
        """Results of an operator. Raises NotExpressible for one without Einsum form."""
        kind = call.node.operator
        if kind == "Constant":
            return [constant(call)]
        if kind in ("Shape", "Size"):
            return [shape_of(call, operands[0].shape if operands and operands[0] is not None else ())]
        arrays = folded(call, [None if v is None else v.array for v in call.operands])
        if arrays is not None:
            return [known(array, bits_of(FLOAT)) for array in arrays]
        if kind in CONCATENATIONS:
            return CONCATENATIONS[kind](call, operands)
        if kind in RECURRENT:
            return RECURRENT[kind](joined(call, operands))
        if kind == "If":
            raise unknown_condition(operands)
        if kind not in OPERATORS:
            raise NotExpressible(self.reasons.get(call.node.outputs[0], "einmap does not import this operator"))
        if any(isinstance(value, Parts) for value in operands):
            return by_parts(call, operands)
        return [*OPERATORS[kind](call)]

    def give(self, name: str, value: Value | Parts, node: Node) -> None:
        """Name a result; what several operators read is written once, and not computed in each of them."""
        if name in self.values:
            hint = "each result has a name of its own: rename one of the two"
            raise SpecError(f"it gives {short(name, 60)}, which is there already", at=node.at, hint=hint)
        if isinstance(value, Parts):
            parts = (self.settled(part, f"{self.name_of(node)}_{i + 1}", name) for i, part in enumerate(value.values))
            self.values[name] = Parts(value.axis, tuple(parts))
        else:
            self.values[name] = self.settled(value, self.name_of(node), name)

    def settled(self, value: Value, tensor: str, name: str) -> Value:
        """A value as its readers get it: with bits by type, or those asked for, and written if there are several."""
        value = replace(value, bits=bits_of(self.kinds.get(name, FLOAT)) if self.bits is None else self.bits)
        if value.array is None and not value.is_view and self.readers[name] > 1:
            value = self.builder.kept(value, tensor)
        return value

    def add_barrier(
        self, node: Node, operands: Sequence[Value | Parts | None], reason: str, hint: str | None = None
    ) -> None:
        """End the cascade at an operator: its operands are results, its results that are read are graph inputs."""
        read = [name for name in node.outputs if self.readers[name]]
        if not read:
            return
        for name, value in zip(node.inputs, operands, strict=True):
            if isinstance(value, Parts) or (value is not None and value.array is None):
                one = whole(self.builder, value, name) if isinstance(value, Parts) else value
                stored = self.builder.written(one, name)
                self.values[name] = stored
                self.written_out[name] = stored
        around = self.surroundings(node)
        found = results_of(node, around, self.model.proto.graph) if self.shapes is None else self.shapes
        for name in read:
            if name not in found:
                raise SpecError(
                    f"it has no Einsum form ({reason}), and the shape of its result {short(name, 60)} is not known",
                    at=node.at,
                    hint=hint or f"{STATIC}{self.unknown_operators()}",
                )
            tensor = found[name]
            bits = tensor.bits if self.bits is None else self.bits
            self.kinds[name] = tensor.kind
            self.give(name, self.builder.graph_input(name, tensor.shape, bits, name), node)
        reason = f"{reason}; {hint}" if hint else reason
        hidden = products_of(node, around, found)
        self.barriers.append(Barrier(node.operator, reason, node.at.path, tuple(read), hidden))

    def surroundings(self, node: Node) -> Surroundings:
        """The values that an operator reads, its graphs included, as far as they are known."""
        around = Surroundings(self.model.opset, kinds=self.kinds)
        for name in names_read(node):
            value = self.values.get(name)
            if value is not None:
                around.shapes[name] = value.shape
                if isinstance(value, Value) and value.array is not None:
                    around.arrays[name] = value.array
        return around

    def where_given(self, name: str) -> str:
        """Which operator further on gives a value, or what may have been meant."""
        later = next((node for node in self.model.nodes if name in node.outputs), None)
        if later is not None:
            return f"{later.at.path} gives it, further on: a cycle, or operators that are not in order"
        if not self.model.initialisers and self.model.proto is not None:
            return f"no operator or input has that name: {WITHOUT_PARAMETERS}"
        return f"no operator, input or initializer has that name; {did_you_mean(name, self.values, listing='values')}"

    def unknown_operators(self) -> str:
        """The operators of the model that einmap does not know, by number, where there are others."""
        counts = Counter(n.operator for n in self.model.nodes if n.operator not in KNOWN)
        if counts.total() < 2:
            return ""
        return f"; operators that einmap does not import: {', '.join(f'{kind} ({n})' for kind, n in counts.items())}"

    def outputs(self) -> tuple[dict[str, Value], dict[str, Joined]]:
        """Outputs of the model as parts of tensors, those that are known left out; and of which those are joined that
        are parts of others, as a cache is to which rows are appended: its old rows stay where they are.
        """
        found: dict[str, Value] = {}
        joined: dict[str, Joined] = {}
        for name in self.model.outputs:
            value = self.output(name)
            if isinstance(value, Value):
                if value.array is None or any(view.tensor.source is None for view in value.leaves):
                    found[name] = self.builder.written(value, name)
                continue
            joined[name], others = kept_in_place(self.builder, name, value)
            found |= others
        return found, joined

    def output(self, name: str) -> Value | Parts:
        """An output of the model; parts where some are inputs of it as they are."""
        if name not in self.values:
            raise SpecError(f"nothing gives the output {short(name, 60)}", at=At(self.model.file))
        value = self.values[name]
        declared = self.model.declared.get(name)
        if declared and not _fits(value.shape, declared):
            raise SpecError(
                f"the model says the shape [{', '.join(map(str, declared))}], its operators give {[*value.shape]}",
                at=At(self.model.file, path=f"output {short(name, 60)}"),
            )
        if isinstance(value, Parts) and any(is_given(part) for part in value.values):
            return value
        return whole(self.builder, value, name) if isinstance(value, Parts) else value

    def name_of(self, node: Node) -> str:
        """Name for the tensor that a node writes: as the node, or its result."""
        return node.name or next((name for name in node.outputs if name), node.operator)


def _fits(shape: Sequence[int], declared: Sequence[int | str]) -> bool:
    """Whether a shape is one that is written down, with names for sizes that are open."""
    return len(shape) == len(declared) and all(
        isinstance(said, str) or said == size for size, said in zip(shape, declared, strict=True)
    )
