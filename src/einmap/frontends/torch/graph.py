"""The JSON of a program, as `torch._export.serde.schema` of PyTorch 2.13 has it, as plain values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from einmap.errors import At, SpecError
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
from einmap.visible import short

MOST_OPERATIONS = 200_000
MOST_AXES = 16
_TYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64",
    9: "complex32", 10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn",
    30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz", 33: "float8_e8m0fnu", 34: "uint32", 35: "uint64",
}  # fmt: skip
"""Types of numbers as the schema numbers them."""
_NAMES = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
_STATES = {
    "buffer_mutation": "buffer_name", "parameter_mutation": "parameter_name", "user_input_mutation": "user_input_name",
}  # fmt: skip
_SYMBOL = re.compile(r"Symbol\('(\w+)'[^()]*\)")
_NUMBERS = {"Infinity": float("inf"), "-Infinity": float("-inf"), "NaN": float("nan")}


@contextmanager
def _located(at: At) -> Iterator[None]:
    """Errors at this place for all that is missing or of another kind."""
    try:
        yield
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, RecursionError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise SpecError(f"this is not a program of torch.export: {short(what, 120)[1:-1]}", at=at) from None


def program_of(data: Any, file: str) -> Program:
    """The program in the JSON of an archive. Raises SpecError with the place."""
    at = At(file)
    with _located(at):
        module = data["graph_module"]
        signature = module["signature"]
        ranges = {
            str(symbol): (_limit(limits.get("min_val")), _limit(limits.get("max_val")))
            for symbol, limits in data.get("range_constraints", {}).items()
        }
        graph = _graph(module["graph"], file, "")
        given = [entry for entry in map(_given, signature["input_specs"]) if entry is not None]
        results = [entry for entry in map(_result, signature["output_specs"]) if entry is not None]
    for entry in given:
        if entry.name not in graph.facts and entry.name not in graph.sizes:
            raise SpecError(f"the shape of the input {short(entry.name, 60)} is missing", at=at)
    tensors = tuple(entry for entry in given if entry.name in graph.facts)
    if len({entry.name for entry in tensors}) != len(tensors):
        raise SpecError("two inputs have one name", at=at)
    return Program(file, graph, tensors, named_outputs(results), ranges)


def _limit(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _given(entry: Mapping[str, Any]) -> Given | None:
    (kind, spec), *_ = entry.items()
    if kind in _NAMES:
        name = _text(spec["arg"]["name"])
        return Given(name, _text(spec[_NAMES[kind]]), is_weight=True)
    if kind == "user_input":
        value = _argument(spec["arg"])
        return Given(value.name, value.name, is_weight=False) if isinstance(value, Ref) else None
    return None


def _result(entry: Mapping[str, Any]) -> tuple[str | None, Any] | None:
    (kind, spec), *_ = entry.items()
    if kind in ("user_output", "loss_output"):
        return None, _argument(spec["arg"] if kind == "user_output" else {"as_tensor": spec["arg"]})
    return (_text(spec[_STATES[kind]]), Ref(_text(spec["arg"]["name"]))) if kind in _STATES else None


def _graph(data: Mapping[str, Any], file: str, within: str) -> Graph:
    nodes = data["nodes"]
    if len(nodes) > MOST_OPERATIONS:
        raise SpecError(f"the program has {len(nodes):,} operators, at most {MOST_OPERATIONS:,} are read", at=At(file))
    facts = {}
    for name, entry in data["tensor_values"].items():
        with _located(At(file, path=f"{within}tensor {short(name, 60)}")):
            facts[name] = _facts(entry)
    sizes = {name: _size(entry) for name, entry in data.get("sym_int_values", {}).items()}
    operations = []
    for number, node in enumerate(nodes):
        with _located(At(file, path=f"{within}operator {number}")):
            operations.append(_operation(node, file, within, number))
    results = tuple(_argument(entry) for entry in data["outputs"])
    inputs = tuple(value.name for entry in data["inputs"] if isinstance(value := _argument(entry), Ref))
    read = {name for operation in operations for name in _read(operation.arguments.values())} | {*_read(results)}
    operations = [
        replace(operation, outputs=tuple(name if name in read else "" for name in operation.outputs))
        if len(operation.outputs) > 1
        else operation
        for operation in operations
    ]
    return Graph(inputs, tuple(operations), results, facts, sizes)


def _read(values: Iterable[Any]) -> Iterator[str]:
    """The names of values among arguments."""
    for value in values:
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, Ref):
                yield one.name


def _facts(entry: Mapping[str, Any]) -> Facts:
    shape = tuple(_size(size) for size in entry["sizes"])
    if len(shape) > MOST_AXES or any(isinstance(size, int) and size < 0 for size in shape):
        raise ValueError(f"the shape {[*shape]} is not one of at most {MOST_AXES} dimensions")
    return Facts(shape, _kind(entry["dtype"]))


def _kind(number: Any) -> int:
    """A type of numbers as ONNX has it, by its number in the schema."""
    if not isinstance(number, int) or number not in _TYPES:
        raise ValueError(f"the type of numbers {short(number, 40)} is not known")
    return KINDS[_TYPES[number]]


def _size(entry: Mapping[str, Any]) -> Size:
    if "as_int" in entry:
        return _integer(entry["as_int"])
    text = _text(entry["as_expr"]["expr_str"])
    alone = _SYMBOL.fullmatch(text)
    return alone[1] if alone else text


def _operation(node: Mapping[str, Any], file: str, within: str, number: int) -> Operation:
    target = _text(node["target"]).removeprefix("torch.ops.")
    outputs: list[str] = []
    for entry in node["outputs"]:
        (kind, value), *_ = entry.items()
        tensors = value if kind in ("as_tensors", "as_optional_tensors") else [value] if kind == "as_tensor" else []
        tensors = [one.get("as_tensor", {"name": ""}) if kind == "as_optional_tensors" else one for one in tensors]
        outputs += [_text(tensor["name"]) for tensor in tensors]
    arguments: dict[str, Any] = {}
    for place, entry in enumerate(node["inputs"]):
        name, value = _text(entry["name"]) or str(place), entry["arg"]
        if "as_graph" in value:
            arguments[name] = _graph(value["as_graph"]["graph"], file, f"{within}operator {number}, ")
        else:
            arguments[name] = _argument(value)
    name = node.get("name") or next(filter(None, outputs), target)
    shown = short(f"{target} {_text(name)}", 80)[1:-1]
    at = At(file, path=f"{within}operator {number} ({shown})")
    return Operation(target, name, arguments, tuple(outputs), at)


def _argument(entry: Mapping[str, Any]) -> Any:
    """An argument as a plain value; what no operator that is read asks for stays as it is."""
    (kind, value), *_ = entry.items()
    match kind:
        case "as_none":
            return None
        case "as_tensor":
            return Ref(_text(value["name"]))
        case "as_tensors":
            return [Ref(_text(tensor["name"])) for tensor in value]
        case "as_optional_tensor" | "as_sym_int" | "as_sym_float" | "as_sym_bool":
            return Ref(_text(value["as_name"])) if "as_name" in value else _argument(value)
        case "as_optional_tensors" | "as_sym_ints" | "as_sym_floats" | "as_sym_bools":
            return [Ref(_text(one["as_name"])) if "as_name" in one else _argument(one) for one in value]
        case "as_scalar_type":
            return Kind(_kind(value))
        case "as_float":
            return _float(value)
        case "as_floats":
            return [_float(one) for one in value]
    return value


def _float(value: Any) -> float:
    return _NUMBERS[value] if isinstance(value, str) else float(value)


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise TypeError(f"a name must be a text, found {short(value, 60)}")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**62:
        return value
    raise TypeError(f"a size must be an integer, found {short(value, 60)}")
