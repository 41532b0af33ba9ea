"""A TFLite model as plain values: tensors with their integers' scales, operators in order, inputs and outputs."""

from __future__ import annotations

import mmap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from einmap.errors import At, SpecError
from einmap.frontends.cascade.builder import MOST_VALUES
from einmap.frontends.cascade.program import Array, quiet
from einmap.frontends.files import reading
from einmap.frontends.onnx.kinds import INTEGERS
from einmap.frontends.onnx.model import MOST_AXES, MOST_NODES, bits_of
from einmap.frontends.onnx.wire import MOST_PAYLOAD
from einmap.frontends.tflite.flatbuffer import Buffer, Table
from einmap.frontends.tflite.schema import CUSTOM, KINDS, NAMES, OPTIONS
from einmap.visible import short

MOST_TENSORS = 500_000


@dataclass(frozen=True, slots=True)
class Scales:
    """Integers stand for `scale * (integer - zero)`; scales differ along `axis` where there are several."""

    scale: Array
    zero: Array
    axis: int


@dataclass(frozen=True, slots=True)
class Tensor:
    """A value. `kind`: of ONNX; `array`: numbers of at most 64 KiB; `constant`: whether the file has its numbers."""

    name: str
    shape: tuple[int, ...]
    kind: int
    scales: Scales | None
    constant: bool
    array: Array | None
    is_variable: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator; `inputs` and `outputs` are numbers of tensors, -1 for one that is left out."""

    name: str
    options: Mapping[str, Any]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Model:
    """The first graph of a file."""

    file: str
    tensors: Sequence[Tensor]
    operators: Sequence[Operator]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


def read_file(path: Path) -> Model:
    """The model in a file. Raises SpecError with the place of what is damaged."""
    at = At(str(path))
    if (noted := reading()) is not None:
        noted.files.append(path)
    try:
        if not path.is_file():
            raise SpecError("there is no such file" if not path.exists() else "this is not a regular file", at=at)
        if path.stat().st_size < 8:
            raise SpecError("the file is too short for a TFLite model", at=at)
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            return _Reader(Buffer(content, str(path))).model()
    except OSError as error:
        raise SpecError(f"cannot read the file: {error.strerror or error}", at=at) from error


class _Reader:
    """Reads the tables of a file."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.root = buffer.root(b"TFL3")
        self.buffers = self.root.tables(4)
        self.names: set[str] = set()

    def model(self) -> Model:
        """The tensors and operators of the first graph."""
        file = self.buffer.file
        graphs = self.root.tables(2)
        if not graphs:
            raise SpecError("the model has no graph", at=At(file))
        graph = graphs[0]
        codes = [self.code(table) for table in self.root.tables(1)]
        tables, operators = graph.tables(0), graph.tables(3)
        if not operators:
            raise SpecError("the model has no operators", at=At(file))
        for what, found, most in (("operators", operators, MOST_NODES), ("tensors", tables, MOST_TENSORS)):
            if len(found) > most:
                raise SpecError(f"the model has {len(found):,} {what}, at most {most:,} are read", at=At(file))
        tensors = [self.tensor(table, i) for i, table in enumerate(tables)]
        n = len(tensors)
        return Model(
            file,
            tensors,
            [self.operator(table, i, codes, n) for i, table in enumerate(operators)],
            self.places(graph, 1, n, At(file, path="inputs")),
            self.places(graph, 2, n, At(file, path="outputs")),
        )

    def code(self, table: Table) -> str:
        """The name of an operator: the larger of two fields, the older of which has a byte alone."""
        number = max(int(table.scalar(3, "i")), int(table.scalar(0, "b")))
        if number == CUSTOM:
            return f"CUSTOM.{short(table.text(1), 60)[1:-1]}"
        return NAMES[number] if 0 <= number < len(NAMES) else f"OPERATOR_{number}"

    def places(self, table: Table, field: int, n: int, at: At) -> tuple[int, ...]:
        """Numbers of tensors in a field. Raises SpecError for those that are not there."""
        found = tuple(int(i) for i in table.numbers(field, "i4"))
        for i in found:
            if not -1 <= i < n:
                raise SpecError(f"there is no tensor {i}: the model has {n}", at=at)
        return found

    def operator(self, table: Table, number: int, codes: Sequence[str], n: int) -> Operator:
        """One operator with the options that are read."""
        index = int(table.scalar(0, "I"))
        if index >= len(codes):
            text = f"its kind is number {index} of {len(codes)}"
            raise SpecError(text, at=At(self.buffer.file, path=f"operator {number}"))
        name = codes[index]
        at = At(self.buffer.file, path=f"operator {number} ({name})")
        options = table.table(4)
        fields = OPTIONS.get(name, {})
        values = {
            key: options.scalar(place, kind, *rest) if options is not None else (rest[0] if rest else 0)
            for key, (place, kind, *rest) in fields.items()
        }
        return Operator(name, values, self.places(table, 1, n, at), self.places(table, 2, n, at), at)

    def tensor(self, table: Table, number: int) -> Tensor:
        """One tensor, under a name of its own."""
        said = table.text(3) or f"tensor_{number}"
        name = said if said not in self.names else f"{said}_{number}"
        while name in self.names:
            name += "_"
        self.names.add(name)
        at = At(self.buffer.file, path=f"tensor {short(name, 60)}")
        shape = tuple(int(size) for size in table.numbers(0, "i4"))
        if len(shape) > MOST_AXES or any(size < 0 for size in shape) or prod(shape) > MOST_VALUES:
            raise SpecError(f"the shape {[*shape[:20]]} has too many values, or negative sizes", at=at)
        kind = int(table.scalar(1, "b"))
        if kind not in KINDS:
            raise SpecError(f"numbers of the TFLite type {kind} are not supported", at=at)
        scales = self.scales(table.table(4), shape, at) if KINDS[kind] in INTEGERS else None
        constant, array = self.numbers(table, shape, KINDS[kind], at)
        return Tensor(name, shape, KINDS[kind], scales, constant, array, bool(table.scalar(5, "?")))

    def scales(self, table: Table | None, shape: tuple[int, ...], at: At) -> Scales | None:
        """Scales of integers; None for integers that stand for themselves."""
        if table is None:
            return None
        scale, zero, axis = table.numbers(2, "f4"), table.numbers(3, "i8"), int(table.scalar(6, "i"))
        if not len(scale):
            return None
        if len(zero) not in (0, 1, len(scale)) or not np.isfinite(scale).all() or (scale <= 0).any():
            raise SpecError(f"{len(scale)} scales and {len(zero)} zero points do not fit, or are not positive", at=at)
        if len(scale) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scale)):
            raise SpecError(f"{len(scale)} scales do not fit axis {axis} of the shape {[*shape]}", at=at)
        # the shortest decimal of a number of 32 bits is what a map expression has
        exact = np.array([float(str(one)) for one in scale])
        return Scales(exact, np.broadcast_to(zero if len(zero) else np.zeros(1, np.int64), scale.shape), axis)

    def numbers(self, table: Table, shape: tuple[int, ...], kind: int, at: At) -> tuple[bool, Array | None]:
        """Whether the file has the numbers of a tensor, and these, where there are few."""
        index = int(table.scalar(2, "I"))
        if index >= len(self.buffers):
            if index or self.buffers:
                raise SpecError(f"its numbers are in buffer {index} of {len(self.buffers)}", at=at)
            return False, None
        buffer = self.buffers[index]
        start, length = buffer.span(0) or (0, 0)
        if not length and int(buffer.scalar(1, "Q")) > 1:  # beyond the tables, for more than 2 GB
            start, length = int(buffer.scalar(1, "Q")), int(buffer.scalar(2, "Q"))
            self.buffer.check(start, length)
        if not length:
            return False, None
        if table.table(6) is not None:  # those that are not zero alone
            return True, None
        count, bits = prod(shape), bits_of(kind)
        if length != -(-count * bits // 8):
            text = f"its shape {[*shape]} needs {-(-count * bits // 8):,} bytes, the file has {length:,}"
            raise SpecError(text, at=at)
        form = _FORMS.get(kind)
        if length > MOST_PAYLOAD or (form is None and kind not in (21, 22)):
            return True, None
        content = self.buffer.taken(start, length)
        if form is not None:
            return True, quiet(np.frombuffer(content, form).reshape(shape))
        halves = np.frombuffer(content, np.uint8)[:, None] >> np.array([0, 4], np.uint8) & 15
        integers = halves.reshape(-1)[:count].astype(np.int8).reshape(shape)
        return True, np.where(integers > 7, integers - 16, integers).astype(np.int8) if kind == 22 else integers


_FORMS = {
    1: "<f4", 2: "u1", 3: "i1", 4: "<u2", 5: "<i2", 6: "<i4", 7: "<i8", 9: "?", 10: "<f2", 11: "<f8", 12: "<u4",
    13: "<u8",
}  # fmt: skip
"""Types of NumPy by those of ONNX."""
