"""The layers of a workload: sizes, equation, bits of the operands, and where these come from."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einmap.errors import At, SpecError
from einmap.frontends.foreign import Fields, Report, Value
from einmap.frontends.zigzag.equation import Equation, read_equation, read_relations
from einmap.frontends.zigzag.roles import ROLES
from einmap.spec.names import RESERVED, is_name

_DIMENSION = re.compile(r"[A-Za-z]\w{0,60}", re.ASCII)
_TAKEN = frozenset({*RESERVED, *ROLES.values(), "Total"})
MAX_DIMENSIONS = 32
MAX_PADDING = 2**20
_OTHER_KEYS = {
    "pr_loop_sizes": "it follows from the loops and the padding",
    "time_dim": "steps of time that depend on one another have no counterpart",
}


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. `sizes`: by loop dimension as written; `variables`: rank variables by dimension in small letters.

    `bits`: of values by letter, the final ones of the output; `partial_bits`: of the output while it is summed;
    `sources`: by letter the layer whose output an operand is; `padding`: zeros before the first value, by index.
    """

    number: int
    name: str
    called: str
    operator: str
    equation: Equation
    sizes: Mapping[str, int]
    variables: Mapping[str, str]
    bits: Mapping[str, int]
    partial_bits: int
    sources: Mapping[str, int]
    padding: Mapping[str, int]
    at: At

    @property
    def extents(self) -> dict[str, int]:
        """Sizes by rank variable."""
        return {self.variables[dimension.lower()]: size for dimension, size in self.sizes.items()}

    @property
    def is_summed(self) -> bool:
        """Whether a loop of several iterations does not index the output."""
        indexed = {variable for index in self.equation.output.index for variable, _ in index.terms}
        return any(size > 1 for variable, size in self.extents.items() if variable not in indexed)


def read_layers(document: Value, report: Report) -> tuple[Layer, ...]:
    """All layers, each after those whose outputs it reads. Raises SpecError with the place of what is wrong."""
    names: set[str] = set()
    layers: dict[int, Layer] = {}
    for item in document.items():
        layer = _layer(Fields(item, report), names)
        if layer.number in layers:
            raise SpecError(f"the id {layer.number} is given twice", at=layer.at)
        layers[layer.number] = layer
    if not layers:
        raise SpecError("the workload has no layers", at=document.at)
    for layer in layers.values():
        for letter, source in layer.sources.items():
            if source not in layers:
                raise SpecError(f"operand_source.{letter}: there is no layer with id {source}", at=layer.at)
    return _in_order(list(layers.values()))


def _in_order(layers: Sequence[Layer]) -> tuple[Layer, ...]:
    """Layers in written order, but after what they read."""
    done: dict[int, Layer] = {}
    waiting = list(layers)
    while waiting:
        ready = [layer for layer in waiting if all(source in done for source in layer.sources.values())]
        if not ready:
            names = ", ".join(str(layer.number) for layer in waiting[:10])
            raise SpecError(f"layers read one another in a circle: {names}", at=waiting[0].at)
        # one pass in written order: most files are in order already
        for layer in waiting:
            if all(source in done for source in layer.sources.values()):
                done[layer.number] = layer
        waiting = [layer for layer in waiting if layer.number not in done]
    return tuple(done.values())


def _layer(fields: Fields, names: set[str]) -> Layer:
    number = fields.need("id").integer()
    called = fields.get("name")
    name = _name(called.text() if called else "", number, names)
    sizes = _sizes(fields)
    variables = {dimension.lower(): _variable(dimension, size) for dimension, size in sizes.items()}
    relations = read_relations(fields.get("dimension_relations"), variables)
    equation = read_equation(fields.need("equation"), relations, variables)
    operator = fields.need("operator_type").text()
    letters = [operand.letter for operand in equation.inputs]
    bits, partial = _bits(fields, equation.output.letter, letters)
    sources: dict[str, int] = {}
    if (given := fields.get("operand_source")) is not None:
        entries = Fields(given, fields.report)
        for letter in letters:
            source = entries.get(letter)
            if source is not None and source.integer() != number:
                sources[letter] = source.integer()
        entries.close({})
    padding = _padding(fields)
    fields.close(_OTHER_KEYS)
    called_text = called.text() if called else f"Layer{number}"
    return Layer(
        number, name, called_text, operator, equation, sizes, variables, bits, partial, sources, padding, fields.at
    )


def _sizes(fields: Fields) -> dict[str, int]:
    dimensions = fields.need("loop_dims")
    sizes = fields.need("loop_sizes")
    if len(dimensions.items()) != len(sizes.items()):
        text = f"loop_dims has {len(dimensions.items())} dimensions, loop_sizes {len(sizes.items())} sizes"
        raise SpecError(text, at=sizes.at, hint="give each dimension one size")
    if not 1 <= len(dimensions.items()) <= MAX_DIMENSIONS:
        raise dimensions.wrong(f"1 to {MAX_DIMENSIONS} dimensions")
    result: dict[str, int] = {}
    for dimension, size in zip(dimensions.items(), sizes.items(), strict=True):
        name = dimension.text().upper()
        if not _DIMENSION.fullmatch(name):
            raise dimension.wrong("a name of letters, digits and _")
        if name in result:
            raise SpecError(f"the dimension {name} is given twice", at=dimension.at)
        result[name] = size.integer(1, 2**40)
    return result


def _variable(dimension: str, size: int) -> str:
    """`k64`: variables of several sizes have several names, since they are bounded for all Einsums."""
    return f"{dimension.lower()}{'_' if dimension[-1].isdigit() else ''}{size}"


def _bits(fields: Fields, output: str, letters: Sequence[str]) -> tuple[dict[str, int], int]:
    """Bits of a value by letter, and those of a partial sum."""
    entries = Fields(fields.need("operand_precision"), fields.report)
    bits = {letter: entries.need(letter).integer(0, 4096) for letter in letters}
    partial = entries.get(output)
    final = entries.get(f"{output}_final") or partial or entries.need(output)
    bits[output] = final.integer(1, 4096)
    wide = partial.integer(1, 4096) if partial is not None else bits[output]
    if partial is not None and wide < bits[output]:
        reason = f"results have {bits[output]} bits, and partial sums as many, not {wide}"
        fields.report.leave(partial.at, f"operand_precision.{output}", reason)
    entries.close({})
    return bits, max(wide, bits[output])


def _padding(fields: Fields) -> dict[str, int]:
    dimensions = fields.get("pr_loop_dims")
    padding = fields.get("padding")
    if padding is None:
        return {}
    if dimensions is None:
        raise SpecError("padding needs pr_loop_dims", at=padding.at, hint="say which dimensions are padded")
    if len(padding.items()) != len(dimensions.items()):
        raise padding.wrong(f"{len(dimensions.items())} pairs, one for each of pr_loop_dims")
    result: dict[str, int] = {}
    for dimension, pair in zip(dimensions.texts(), padding.items(), strict=True):
        if len(pair.items()) != 2:
            raise pair.wrong("two numbers, the zeros before and after")
        before, _ = (side.integer(0, MAX_PADDING) for side in pair.items())
        result[dimension.lower()] = before
    return result


def _name(called: str, number: int, names: set[str]) -> str:
    """A name for the Einsum and its output: that of the layer in letters, digits and `_`, or `Layer3`."""
    plain = re.sub(r"\W", "_", called[:60], flags=re.ASCII).strip("_")
    name = plain if plain[:1].isalpha() and is_name(plain) else f"Layer{number}"
    while name in names or name in _TAKEN:
        name = f"{name}_{number}"
    names.add(name)
    return name
