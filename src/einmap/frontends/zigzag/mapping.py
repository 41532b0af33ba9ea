"""Mappings: which loops are spread over the array, and which memories hold which operand."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from einmap.errors import At, SpecError
from einmap.frontends.foreign import Fields, Report, Value
from einmap.frontends.zigzag.hardware import Hardware, check_dimension
from einmap.frontends.zigzag.layers import Layer
from einmap.frontends.zigzag.ordering import Entry, given_nodes, read_ordering
from einmap.frontends.zigzag.roles import DEFAULT_LINKS, ROLES

DEFAULT = "default"
_UNROLLING = re.compile(r"([A-Za-z]\w*)\s*,\s*(\d{1,9})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Given:
    """One entry of a mapping file. `spatial`: loop dimensions and factors by dimension of the array.

    `hints`: loop dimensions that may be spread over one; `links`: the memory operand of each letter of the equation;
    `ordering`: temporal loops, the innermost first.
    """

    spatial: Mapping[str, Sequence[tuple[str, int]]]
    hints: Mapping[str, Sequence[str]]
    links: Mapping[str, str]
    ordering: tuple[Entry, ...]
    at: At


@dataclass(slots=True)
class Constraints:
    """Limits of the array's dimensions by name, and for each layer which rank variables the names stand for."""

    limits: dict[str, list[dict[str, object]]] = field(default_factory=dict)
    renames: dict[str, dict[str, str]] = field(default_factory=dict)


def read_mappings(document: Value, hardware: Hardware | None, report: Report) -> dict[str, Given]:
    """The entries of a mapping file by name. Raises SpecError with the place of what is wrong."""
    result: dict[str, Given] = {}
    for item in document.items():
        fields = Fields(item, report)
        name = fields.need("name")
        if name.text() in result:
            raise SpecError(f"the mapping {name.text()!r} is given twice", at=name.at)
        fields.leave("core_allocation", "there is one core")
        result[name.text()] = Given(
            read_spatial(fields.get("spatial_mapping"), hardware, report),
            _hints(fields.get("spatial_mapping_hint"), hardware, report),
            _links(fields.get("memory_operand_links"), report),
            read_ordering(fields.get("temporal_ordering")),
            fields.at,
        )
        fields.close({})
    return result


def read_spatial(
    value: Value | None, hardware: Hardware | None, report: Report
) -> dict[str, tuple[tuple[str, int], ...]]:
    """Loop dimensions and factors, such as `K, 32`, by dimension of the array."""
    result: dict[str, tuple[tuple[str, int], ...]] = {}
    if value is None:
        return result
    fields = Fields(value, report)
    for dimension in fields.names:
        entry = fields.need(dimension)
        if hardware is not None:
            check_dimension(entry, dimension, hardware.array)
        factors: list[tuple[str, int]] = []
        for item in entry.items():
            found = _UNROLLING.fullmatch(item.text())
            if found is None or not int(found[2]):
                raise item.wrong("a loop dimension and how often it is spread", hint="write it as K, 32")
            factors.append((found[1].upper(), int(found[2])))
        result[dimension] = tuple(factors)
    return result


def _hints(value: Value | None, hardware: Hardware | None, report: Report) -> dict[str, tuple[str, ...]]:
    if value is None:
        return {}
    fields = Fields(value, report)
    hints: dict[str, tuple[str, ...]] = {}
    for dimension in fields.names:
        entry = fields.need(dimension)
        if hardware is not None and dimension not in hardware.array.sizes:
            report.leave(entry.at, f"spatial_mapping_hint.{dimension}", "the array has no such dimension")
            continue
        hints[dimension] = tuple(text.upper() for text in entry.texts())
    return hints


def _links(value: Value | None, report: Report) -> Mapping[str, str]:
    if value is None:
        return DEFAULT_LINKS
    fields = Fields(value, report)
    links: dict[str, str] = {}
    for letter in fields.names:
        link = fields.need(letter)
        if link.text() not in ROLES or (link.text() == "O") != (letter == "O"):
            raise link.wrong("O for O, and I1 or I2 for an input")
        links[letter] = link.text()
    return links


def given_for(layer: Layer, mappings: Mapping[str, Given]) -> Given | None:
    """The entry of a layer: that with its name, or with its operator's, or the default."""
    for name in (layer.called, layer.operator, DEFAULT):
        if name in mappings:
            return mappings[name]
    return None


def unrolled(layer: Layer, given: Given, sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """How often loop dimensions of `layer` are spread over each dimension of the array: no more than there is.

    `sizes`: of the array's dimensions. Factors of 1 are left out. Raises SpecError where the array has too few units.
    """
    result: dict[str, dict[str, int]] = {}
    for dimension, factors in given.spatial.items():
        spread: dict[str, int] = {}
        for loop, factor in factors:
            if loop not in layer.sizes:
                continue
            others = prod(d.get(loop, 1) for d in result.values())
            most = min(factor, sizes.get(dimension, 1), -(-layer.sizes[loop] // others))
            if most > 1:
                spread[loop] = most
        if (lanes := prod(spread.values())) > sizes.get(dimension, 1):
            text = (
                f"{layer.called} spreads {lanes} iterations over {dimension}, which has {sizes.get(dimension, 1)} units"
            )
            raise SpecError(text, at=given.at, hint="choose smaller factors")
        result[dimension] = spread
    return result


def constraints(
    layers: Sequence[Layer], mappings: Mapping[str, Given], hardware: Hardware, report: Report
) -> Constraints:
    """Spatial mappings as limits on the spatial loops of each dimension, layer by layer.

    For each dimension of the array there are sets of rank variables, which stand for others in each layer: those that
    are not spread over it, those that are spread by a factor, and those whose size is not a multiple of it, which are
    spread by at most as much.
    """
    result = Constraints()
    sizes = hardware.array.sizes
    sets = {layer.name: _sets_of(layer, given_for(layer, mappings), sizes, report) for layer in layers}
    for dimension in sizes:
        limits = sorted({limit for own in sets.values() for limit in own.get(dimension, ())})
        if not limits:
            continue
        result.limits[dimension] = [
            {"expression": limit.name(dimension), "operator": limit.operator, "value": limit.value} for limit in limits
        ]
        for layer in layers:
            own = sets[layer.name].get(dimension, {})
            stand_for = {limit.name(dimension): " | ".join(own.get(limit, ())) or "Nothing" for limit in limits}
            result.renames.setdefault(layer.name, {}).update(stand_for)
    return result


def orderings(
    layers: Sequence[Layer], mappings: Mapping[str, Given], hardware: Hardware, report: Report
) -> dict[str, object]:
    """A partly given mapping for each layer whose mapping orders loops, by name of the layer."""
    result: dict[str, object] = {}
    for layer in layers:
        given = given_for(layer, mappings)
        if given is None or not given.ordering:
            continue
        sizes = hardware.array.sizes
        spread = unrolled(layer, given, sizes)
        lanes = {loop: prod(own.get(loop, 1) for own in spread.values()) for loop in layer.sizes}
        is_said = all(dimension in spread for dimension, size in sizes.items() if size > 1)
        if nodes := given_nodes(layer, given.ordering, lanes if is_said else None, report):
            result[layer.name] = {"nodes": nodes}
    return result


@dataclass(frozen=True, slots=True, order=True)
class _Limit:
    """How often some rank variables are spread over one dimension: just so often, or (`<=`) at most."""

    value: int
    operator: str

    def name(self, dimension: str) -> str:
        if self.value == 1:
            return f"{dimension}_not"
        return f"{dimension}_{'by' if self.operator == '==' else 'up_to'}_{self.value}"


def _sets_of(
    layer: Layer, given: Given | None, sizes: Mapping[str, int], report: Report
) -> dict[str, dict[_Limit, list[str]]]:
    """Rank variables of a layer by limit, for each dimension that its mapping or a hint speaks of."""
    result: dict[str, dict[_Limit, list[str]]] = {}
    if given is None:
        return result
    spread = unrolled(layer, given, sizes)
    for dimension in sizes:
        named: dict[_Limit, list[str]] = {}
        if dimension in spread:
            kept = set(spread[dimension])
        elif dimension in given.hints:
            kept = set(given.hints[dimension])
        else:
            continue
        for loop, factor in spread.get(dimension, {}).items():
            total = prod(factors.get(loop, 1) for factors in spread.values())
            divides = layer.sizes[loop] % total == 0
            if not divides:
                reason = f"{layer.sizes[loop]} is not a multiple of {total}, so a factor of it is spread"
                report.leave(given.at, f"spatial_mapping.{dimension}.{loop}", reason)
            named.setdefault(_Limit(factor, "==" if divides else "<="), []).append(layer.variables[loop.lower()])
        others = [layer.variables[loop.lower()] for loop in layer.sizes if loop not in kept]
        named[_Limit(1, "==")] = others
        result[dimension] = named
    return result
