"""An ONNX model as plain values: nodes in order, initialisers without large payloads, dimensions that are numbers."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from einmap.errors import At, EinmapError, SpecError, raise_all
from einmap.frontends.cascade.builder import MOST_VALUES
from einmap.frontends.cascade.program import Array, in_numpy, quiet
from einmap.frontends.files import reading
from einmap.frontends.onnx import external
from einmap.frontends.onnx.dimensions import parts_of_sum, sum_of
from einmap.frontends.onnx.functions import inlined
from einmap.frontends.onnx.wire import compact_model, text_of
from einmap.optional import require
from einmap.visible import short

MOST_NODES = 200_000
MOST_AXES = 16
_BITS = {
    1: 32, 2: 8, 3: 8, 4: 16, 5: 16, 6: 32, 7: 64, 9: 8, 10: 16, 11: 64, 12: 32, 13: 64, 16: 16, 17: 8, 18: 8, 19: 8,
    20: 8, 21: 4, 22: 4, 23: 4, 24: 8, 25: 2, 26: 2,
    27: 6, 28: 6,
}  # fmt: skip
"""Bits of a number by `TensorProto.DataType` (onnx.proto); complex numbers and texts are missing."""
GRAPH_ATTRIBUTES = (5, 10)
"""Types of attributes that hold graphs (`AttributeProto.AttributeType`)."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operator: `operator` with its domain unless that is ONNX's own. `at`: where it stands."""

    operator: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    at: At


@dataclass(frozen=True, slots=True)
class Tensor:
    """Facts known of a value: its shape, bits of a number, the type of ONNX, and its numbers where they are kept."""

    name: str
    shape: tuple[int, ...]
    bits: int
    kind: int
    array: Array | None = None


@dataclass(frozen=True, slots=True)
class Model:
    """A model. `open_dimensions`: names of those that have no size in the file; `declared`: shapes of outputs, if all
    sizes are those of the file.

    `proto` is what was parsed, without large payloads, its dimensions as they were given. Of a model from elsewhere it
    is None, and there may be `constants`, values that are known, and `said`, shapes and types of results.
    """

    file: str
    nodes: tuple[Node, ...]
    initialisers: Mapping[str, Tensor]
    inputs: Mapping[str, Tensor]
    outputs: tuple[str, ...]
    opset: int
    open_dimensions: tuple[str, ...]
    declared: Mapping[str, tuple[int | str, ...]]
    proto: Any = field(repr=False)
    constants: Mapping[str, Tensor] = field(default_factory=dict, repr=False)
    said: Mapping[str, Tensor] = field(default_factory=dict, repr=False)


def read_model(
    path: Path, dimensions: Mapping[str, object], batch: int | None = None, imported: Collection[str] = ()
) -> Model:
    """The model in a file. `dimensions`: sizes of those that are open, by name; `batch`: the first of each input.
    `imported`: operators that stay as they are, even where ONNX defines them by others.

    Raises SpecError: all problems of dimensions and initialisers together, each with its place in the model.
    """
    onnx = require("onnx", "onnx")
    content = compact_model(path)
    at = At(str(path))
    try:
        proto = onnx.ModelProto.FromString(content)
    except Exception as error:  # protobuf has several classes, by implementation
        raise SpecError(f"this is not a readable ONNX model: {error}", at=at) from None
    graph = proto.graph
    if not graph.node:
        raise SpecError("the model has no operators", at=at, hint="is this an ONNX model?")
    if len(graph.node) > MOST_NODES:
        raise SpecError(f"the model has {len(graph.node):,} operators, at most {MOST_NODES:,} are read", at=at)
    reader = _Reader(str(path), dimensions, batch)
    initialisers = {found.name: found for t in graph.initializer if (found := reader.initialiser(t)) is not None}
    inputs = {
        found.name: found
        for info in graph.input
        if text_of(info.name) not in initialisers and (found := reader.graph_input(info)) is not None
    }
    raise_all(reader.problems)
    proto = inlined(proto, imported, MOST_NODES, at)
    graph = proto.graph
    nodes = tuple(_node(onnx, node, i, str(path)) for i, node in enumerate(graph.node))
    opset = max((entry.version for entry in proto.opset_import if entry.domain in ("", "ai.onnx")), default=1)
    outputs = tuple(text_of(output.name) for output in graph.output)
    # sizes that are given may be others than those that outputs were written down with; and ONNX's inference counts
    # windows of ceil_mode that begin in the padding, which are left out
    is_as_written = batch is None and not reader.open_names and not any(n.attributes.get("ceil_mode") for n in nodes)
    declared = {text_of(output.name): _declared(output) for output in graph.output if is_as_written}
    return Model(str(path), nodes, initialisers, inputs, outputs, opset, tuple(reader.open_names), declared, proto)


def _declared(info: Any) -> tuple[int | str, ...]:
    """The shape that a model says of an output: sizes, or names for those that are open; nothing for a scalar."""
    dimensions = info.type.tensor_type.shape.dim if info.type.HasField("tensor_type") else ()
    return tuple(
        int(d.dim_value) if d.dim_value > 0 else short(text_of(d.dim_param) or "?", 20)[1:-1] for d in dimensions
    )


@dataclass(slots=True)
class _Reader:
    """Reads initialisers and inputs, and collects what is wrong with them."""

    file: str
    dimensions: Mapping[str, object]
    batch: int | None
    problems: list[EinmapError] = field(default_factory=list)
    open_names: dict[str, None] = field(default_factory=dict)

    def initialiser(self, tensor: Any) -> Tensor | None:
        """An initialiser, its numbers only where they are kept. Raises nothing: what is wrong is collected."""
        at = At(self.file, path=f"initializer {short(text_of(tensor.name), 60)}")
        shape = tuple(tensor.dims)
        if tensor.data_location == 1 and self._check_location(tensor, at):
            external.load_small(tensor, Path(self.file).parent)
        bits = self._bits(tensor.data_type, at)
        if not self._is_shape(shape, at) or bits is None:
            return None
        try:
            return Tensor(text_of(tensor.name), shape, bits, tensor.data_type, array_of(tensor))
        except SpecError as problem:
            problem.at = at
            self.problems.append(problem)
            return None

    def graph_input(self, info: Any) -> Tensor | None:
        """An input of the model, its open dimensions set in the message, too, for the inference of shapes."""
        at = At(self.file, path=f"input {short(text_of(info.name), 60)}")
        if not info.type.HasField("tensor_type"):
            self.problems.append(SpecError("this is not a tensor", at=at, hint="sequences and maps are not supported"))
            return None
        kind = info.type.tensor_type
        if not kind.HasField("shape"):
            self.problems.append(SpecError("the model does not say which shape this has", at=at))
            return None
        for axis, dimension in enumerate(kind.shape.dim):
            size = self._size(text_of(info.name), axis, dimension, at)
            if size is not None:
                dimension.Clear()
                dimension.dim_value = size
        shape = tuple(d.dim_value for d in kind.shape.dim)
        bits = self._bits(kind.elem_type, at)
        if any(not d.HasField("dim_value") for d in kind.shape.dim) or not self._is_shape(shape, at) or bits is None:
            return None
        return Tensor(text_of(info.name), shape, bits, kind.elem_type)

    def _size(self, name: str, axis: int, dimension: Any, at: At) -> int | None:
        """The size of a dimension; None where it is not known, which is a problem."""
        if dimension.HasField("dim_value"):
            return self.batch if axis == 0 and self.batch is not None else int(dimension.dim_value)
        said = text_of(dimension.dim_param) or f"{name}_{axis}"
        word = re.sub(r"\W", "_", said, flags=re.ASCII)
        names = [said, *parts_of_sum(said), *([word] if word in self.dimensions else [])]
        self.open_names.update(dict.fromkeys(names))
        if (noted := reading()) is not None:
            noted.variables.update(names)
        size = next((self.dimensions[n] for n in (said, word) if n in self.dimensions), sum_of(said, self.dimensions))
        if size is not None:
            if isinstance(size, int) and not isinstance(size, bool) and 0 <= size <= MOST_VALUES:
                return size
            text = f"the dimension {short(said, 60)[1:-1]} must be an integer from 0 on, found {short(size)}"
            self.problems.append(SpecError(text, at=at))
            return None
        if axis == 0 and self.batch is not None:
            return self.batch
        asked = [part for part in parts_of_sum(said) or [said] if part not in self.dimensions]
        options = " ".join(
            f"-D {n}=N" if n.isidentifier() else f"-D '{n}=N'" for n in (short(a, 60)[1:-1] for a in asked)
        )
        text = f"the size of dimension {axis} is open ({short(said, 60)[1:-1]})"
        hint = f"give it with {options}{', or --batch N' if axis == 0 else ''}"
        self.problems.append(SpecError(text, at=at, hint=hint))
        return None

    def _is_shape(self, shape: Sequence[int], at: At) -> bool:
        text, hint = None, None
        if len(shape) > MOST_AXES:
            text = f"this has {len(shape)} dimensions, at most {MOST_AXES} are supported"
        elif any(size < 0 for size in shape):
            text = f"the shape {[*shape]} has a negative dimension"
            hint = "an open dimension has a name, or nothing, in its place; -D gives it a size"
        elif (n := prod(size for size in shape if size)) > MOST_VALUES:  # also beside an axis of no index
            text = f"the shape {[*shape]} has {n:.3g} values, at most 2**40 are allowed"
        if text is not None:
            self.problems.append(SpecError(text, at=at, hint=hint))
        return text is None

    def _bits(self, kind: int, at: At) -> int | None:
        if kind not in _BITS:
            self.problems.append(SpecError(f"numbers of the ONNX type {kind} are not supported", at=at))
        return _BITS.get(kind)

    def _check_location(self, tensor: Any, at: At) -> bool:
        """Whether external data are below the model's folder; another place says that the model is not sane."""
        for entry in tensor.external_data:
            if text_of(entry.key) != "location":
                continue
            location = text_of(entry.value)
            kinds = PurePosixPath(location), PureWindowsPath(location)
            if any(path.is_absolute() or ".." in path.parts or getattr(path, "drive", "") for path in kinds):
                text = f"its data are said to be in {short(location, 80)}, outside of the folder of the model"
                hint = "put the data beside the model, or in a folder below"
                self.problems.append(SpecError(text, at=at, hint=hint))
                return False
        return True


def bits_of(kind: int) -> int:
    """Bits of a number of a type of ONNX; 32 for those that are not known."""
    return _BITS.get(kind, 32)


def array_of(tensor: Any) -> Array | None:
    """The numbers of a tensor that are in the model or were loaded; None if they are elsewhere or were left out.

    Raises SpecError where there are not as many as the shape says.
    """
    onnx = require("onnx", "onnx")
    has_data = any(len(getattr(tensor, name)) for name in ("raw_data", *_TYPED))
    if tensor.data_location == 1 or not (has_data or prod(tensor.dims) == 0) or prod(tensor.dims) > MOST_VALUES:
        return None
    try:
        array: Array = onnx.numpy_helper.to_array(tensor)
    except Exception as error:  # whatever a damaged tensor leads to
        wanted, found = prod(tensor.dims) * _BITS.get(tensor.data_type, 32) // 8, len(tensor.raw_data)
        sizes = f"expected {wanted:,} bytes, found {found:,}" if found else short(str(error), 120)
        raise SpecError(f"its numbers do not fit its shape {[*tensor.dims]}: {sizes}") from None
    return (
        quiet(in_numpy(array))
        if array.dtype.kind in "biufV" or array.dtype.name.startswith(("bfloat", "float"))
        else None
    )


_TYPED = ("float_data", "int32_data", "int64_data", "double_data", "uint64_data")


def names_read(node: Node) -> list[str]:
    """Values that an operator reads, with those that the operators of its graphs read."""
    names = [*node.inputs]
    waiting = [a for a in node.attributes.values() if getattr(a, "type", None) in GRAPH_ATTRIBUTES]
    while waiting:
        attribute = waiting.pop()
        for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
            names += [text_of(output.name) for output in graph.output]
            for inner in graph.node:
                names += map(text_of, inner.input)
                waiting += [a for a in inner.attribute if a.type in GRAPH_ATTRIBUTES]
    return names


def graph_of(attribute: Any, file: str, at: At) -> tuple[list[Node], list[Tensor], list[str]]:
    """The operators, initialisers and names of outputs of a graph that an operator holds. Raises SpecError."""
    if getattr(attribute, "type", None) != GRAPH_ATTRIBUTES[0]:
        raise SpecError("a graph of it is missing", at=at)
    onnx = require("onnx", "onnx")
    reader = _Reader(file, {}, None)
    initialisers = [found for t in attribute.g.initializer if (found := reader.initialiser(t)) is not None]
    raise_all(reader.problems)
    nodes = [_node(onnx, node, i, file) for i, node in enumerate(attribute.g.node)]
    placed = [replace(node, at=At(file, path=f"{at.path}, {node.at.path}")) for node in nodes]
    return placed, initialisers, [text_of(output.name) for output in attribute.g.output]


def _plain(value: Any) -> Any:
    """A value of an attribute, its bytes as texts."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    return text_of(value) if isinstance(value, bytes) else value


def _node(onnx: Any, node: Any, number: int, file: str) -> Node:
    domain, name = text_of(node.domain), text_of(node.name)
    operator = text_of(node.op_type) if domain in ("", "ai.onnx") else f"{domain}.{text_of(node.op_type)}"
    shown = f" {short(name, 60)}" if name else ""
    at = At(file, path=f"node {number} ({short(operator, 60)[1:-1]}{shown})")
    attributes: dict[str, Any] = {}
    for attribute in node.attribute:
        key = text_of(attribute.name)
        try:
            if attribute.type in GRAPH_ATTRIBUTES:
                attributes[key] = attribute
            elif attribute.type == 4:
                attributes[key] = attribute.t
            else:
                value = onnx.helper.get_attribute_value(attribute)
                if value is None:
                    raise SpecError(f"the attribute {short(key, 60)} has no value", at=at)
                attributes[key] = _plain(value)
        except SpecError:
            raise
        except Exception as error:  # whatever a damaged attribute leads to
            raise SpecError(f"the attribute {short(key, 60)} cannot be read: {error}", at=at) from None
    inputs, outputs = (tuple(map(text_of, names)) for names in (node.input, node.output))
    return Node(operator, name, inputs, outputs, attributes, at)
