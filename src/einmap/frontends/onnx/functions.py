"""Functions of a model's own, and operators that ONNX itself defines by others: their nodes come in place of a call."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.onnx.wire import text_of
from einmap.optional import require
from einmap.visible import short

type _Id = tuple[str, str, str]
"""Domain, name and overload of a function."""


def inlined(proto: Any, imported: Collection[str], most: int, at: At) -> Any:
    """The model without calls of its functions, and without operators that are not `imported` but defined by others.

    Raises SpecError for functions that call themselves, and for more than `most` operators.
    """
    onnx, inliner = require("onnx", "onnx"), require("onnx.inliner", "onnx")
    if len(proto.functions):
        _check(proto, most, at)
        proto = _by_onnx(lambda: inliner.inline_local_functions(proto), proto, at)
    names = {(text_of(node.domain), text_of(node.op_type)) for node in proto.graph.node}
    foreign = {(domain, name) for domain, name in names if domain not in ("", "ai.onnx") or name not in imported}
    defined = {
        (schema.domain, schema.name)
        for schema in onnx.defs.get_all_schemas()
        if foreign and (schema.has_function or schema.has_context_dependent_function) and schema.name not in imported
    }
    if not foreign & defined:
        return proto
    versions = {text_of(entry.domain): entry.version for entry in proto.opset_import}
    for node in proto.graph.node:
        if (text_of(node.domain), text_of(node.op_type)) in defined:
            _complete(node, versions.get(text_of(node.domain), 1), onnx)
    # a definition depends on the types of operands: those that ONNX does not infer are said, of one left out, too
    known = {tensor.name: (tensor.data_type, [*tensor.dims]) for tensor in proto.graph.initializer} | {"": (1, [])}
    proto.graph.value_info.extend(
        onnx.helper.make_tensor_value_info(name, *known[name])
        for name in {name for node in proto.graph.node for name in node.input} & known.keys()
    )
    try:
        return inliner.inline_selected_functions(proto, sorted(defined), exclude=False, inline_schema_functions=True)
    except Exception:  # ONNX infers not all types that a definition asks for: the operators stay as they are
        return proto


def _complete(node: Any, version: int, onnx: Any) -> None:
    """Give an operator the attributes that it leaves out: where it is put in place, ONNX would leave them out, too."""
    given = {text_of(attribute.name) for attribute in node.attribute}
    try:
        schema = onnx.defs.get_schema(text_of(node.op_type), version, text_of(node.domain))
    except onnx.defs.SchemaError:  # the operator is younger than the version that the model says
        return
    for name, attribute in schema.attributes.items():
        if name not in given and attribute.default_value.type:
            node.attribute.append(attribute.default_value)


def _by_onnx(inline: Any, proto: Any, at: At) -> Any:
    try:
        return inline()
    except Exception as error:  # whatever ONNX says of functions that are not sane
        text = f"its functions ({len(proto.functions)}) cannot be put in place: {short(str(error), 120)}"
        raise SpecError(text, at=at) from None


def _check(proto: Any, most: int, at: At) -> None:
    """Raise SpecError for functions that call themselves, and where there would be too many operators."""
    functions = {
        (text_of(f.domain), text_of(f.name), text_of(f.overload)): Counter(_calls(f.node)) for f in proto.functions
    }
    sizes: dict[_Id, int] = {}
    waiting: list[tuple[_Id, bool]] = [(name, False) for name in functions]
    open_calls: set[_Id] = set()
    while waiting:
        name, is_read = waiting.pop()
        inner = functions[name]
        if is_read:
            open_calls.discard(name)
            sizes[name] = sum(n * sizes.get(other, 1) for other, n in inner.items())
        elif name not in sizes and name not in open_calls:
            open_calls.add(name)
            waiting.append((name, True))
            for other in inner:
                if other in open_calls:
                    raise SpecError(f"the function {short(other[1], 60)} calls itself", at=at)
                if other in functions and other not in sizes:
                    waiting.append((other, False))
    total = sum(n * sizes.get(other, 1) for other, n in Counter(_calls(proto.graph.node)).items())
    if total > most:
        raise SpecError(
            f"the model has {total:,} operators with those of its functions, at most {most:,} are read", at=at
        )


def _calls(nodes: Any) -> list[_Id]:
    """Functions that operators call, those of their graphs included."""
    found: list[_Id] = []
    waiting = [*nodes]
    while waiting:
        node = waiting.pop()
        found.append((text_of(node.domain), text_of(node.op_type), text_of(node.overload)))
        for attribute in node.attribute:
            for graph in (*([attribute.g] if attribute.HasField("g") else ()), *attribute.graphs):
                waiting += graph.node
    return found
