"""Layers as a cascade of Einsums: the tensors between them, with the zeros around them, and their roles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from einmap.einsum.notation.parse import format_projection
from einmap.einsum.spaces.projection import Affine
from einmap.errors import NotSupportedError
from einmap.frontends.foreign import Report
from einmap.frontends.zigzag.equation import Operand
from einmap.frontends.zigzag.layers import Layer
from einmap.frontends.zigzag.roles import DEFAULT_LINKS, ROLES
from einmap.spec.names import RESERVED, is_name


@dataclass(slots=True)
class _Stored:
    """A tensor: bits of a value, ranks, the extent and the zeros in front of each, and whether a layer writes it."""

    name: str
    bits: int
    bases: tuple[str, ...]
    extents: list[int]
    front: list[int]

    def ranks(self) -> tuple[str, ...]:
        ranks: list[str] = []
        for base, extent in zip(self.bases, self.extents, strict=True):
            rank = f"{base}{'_' if base[-1].isdigit() else ''}{extent}".upper()
            ranks.append(rank if rank not in ranks else f"{rank}_{len(ranks)}")
        return tuple(ranks)


@dataclass(slots=True)
class _Access:
    """Which tensor an operand is, and the zeros that the layer wants in front of each rank."""

    tensor: _Stored
    operand: Operand
    front: tuple[int, ...]

    def text(self) -> str:
        shifts = zip(self.operand.index, self.tensor.front, self.front, strict=True)
        index = [replace(i, constant=i.constant + stored - own) for i, stored, own in shifts]
        return f"{self.tensor.name}[{format_projection(tuple(zip(self.tensor.ranks(), index, strict=True)))}]"


@dataclass(slots=True)
class Cascade:
    """Layers as Einsums: `tensors` by letter for each layer, where an operand is one."""

    layers: Sequence[Layer]
    accesses: dict[str, dict[str, _Access]] = field(default_factory=dict)

    def workload(self, links: Mapping[str, Mapping[str, str]]) -> dict[str, object]:
        """The section `workload`; `links`: the memory operand of each letter, by layer."""
        einsums = [self._einsum(layer, links.get(layer.name, DEFAULT_LINKS)) for layer in self.layers]
        bounds = {
            variable: f"0 <= {variable} < {size}" for layer in self.layers for variable, size in layer.extents.items()
        }
        section: dict[str, object] = {"iteration_space_shape": bounds, "bits_per_value": self._bits()}
        if partial := self._partial_bits():
            section["partial_bits_per_value"] = partial
        return {**section, "einsums": einsums}

    def _einsum(self, layer: Layer, links: Mapping[str, str]) -> dict[str, object]:
        accesses = self.accesses[layer.name]
        letters = [operand.letter for operand in layer.equation.inputs if operand.letter in accesses]
        inputs = f" {layer.equation.operator} ".join(accesses[letter].text() for letter in letters)
        output = accesses[layer.equation.output.letter]
        by_role: dict[str, list[str]] = {"input": [], "weight": []}
        for position, letter in enumerate(letters):
            role = ROLES[links.get(letter) or ("I2" if position == 0 and len(letters) > 1 else "I1")]
            by_role[role].append(accesses[letter].tensor.name)
        renames = {role: " | ".join(dict.fromkeys(names)) or "Nothing" for role, names in by_role.items()}
        einsum: dict[str, object] = {"einsum": f"{output.text()} = {inputs}"}
        if "max" in layer.operator.lower():
            einsum["reduction"] = "max"
        return {**einsum, "renames": {**renames, "output": "Outputs"}}

    def _bits(self) -> dict[str, int]:
        by_bits: dict[int, list[str]] = {}
        stored = {a.tensor.name: a.tensor for accesses in self.accesses.values() for a in accesses.values()}
        for tensor in stored.values():
            by_bits.setdefault(tensor.bits, []).append(tensor.name)
        most = max(by_bits, key=lambda bits: len(by_bits[bits]))
        if len(by_bits) == 1:
            return {"All": most}
        return {**{" | ".join(names): bits for bits, names in by_bits.items() if bits != most}, "Other": most}

    def _partial_bits(self) -> dict[str, int]:
        """Bits of partial sums by sets of outputs, for layers that sum and give results of fewer bits."""
        by_bits: dict[int, list[str]] = {}
        for layer in self.layers:
            output = layer.equation.output
            if layer.partial_bits > layer.bits[output.letter] and layer.is_summed:
                by_bits.setdefault(layer.partial_bits, []).append(self.accesses[layer.name][output.letter].tensor.name)
        return {" | ".join(names): bits for bits, names in by_bits.items()}


def cascade(layers: Sequence[Layer], report: Report) -> Cascade:
    """The tensors between layers. An operand whose shape is not that of its source becomes an input, by name."""
    result = Cascade(layers)
    by_number = {layer.number: layer for layer in layers}
    taken = {layer.name for layer in layers}
    for layer in layers:
        output = layer.equation.output
        accesses = {output.letter: _new(layer.name, output, layer)}
        for operand in layer.equation.inputs:
            if not operand.index or not layer.bits[operand.letter]:
                what = "has no index" if not operand.index else "has no bits"
                report.leave(layer.at, f"equation.{operand.letter}", f"it {what}, so it is not a tensor")
                continue
            source = by_number.get(layer.sources.get(operand.letter, -1))
            joined = None if source is None else _joined(result.accesses[source.name], source, operand, layer, report)
            accesses[operand.letter] = joined or _new(_free(f"{operand.letter}_{layer.name}", taken), operand, layer)
        if len(accesses) == 1:
            raise NotSupportedError("no input of the layer is a tensor: none has bits and an index", at=layer.at)
        result.accesses[layer.name] = accesses
    return result


def _new(name: str, operand: Operand, layer: Layer) -> _Access:
    extents = [index.extent(layer.extents) for index in operand.index]
    none = [0] * len(extents)
    return _Access(_Stored(name, layer.bits[operand.letter], operand.names, extents, none), operand, tuple(none))


def _joined(
    written: Mapping[str, _Access], source: Layer, operand: Operand, layer: Layer, report: Report
) -> _Access | None:
    """The output of `source` as `layer` reads it, with room for the zeros around it; None where the shapes differ."""
    output = written[source.equation.output.letter]
    own = [index.extent(source.extents) for index in output.operand.index]
    wanted = [index.extent(layer.extents) for index in operand.index]
    front = _fronts(operand, layer, own, wanted) if len(own) == len(wanted) else None
    tensor = output.tensor
    if front is None:
        reason = f"its shape {_shape(wanted)} is not that of {source.name}, {_shape(own)}: it is an input of its own"
        report.leave(layer.at, f"operand_source.{operand.letter}", reason)
        return None
    if layer.bits[operand.letter] != tensor.bits:
        reason = f"{source.name} writes values of {tensor.bits} bits, which are read as such"
        report.leave(layer.at, f"operand_precision.{operand.letter}", reason)
    for rank, zeros in enumerate(front):
        # the layer wants `zeros` more in front than there are: what is stored moves behind them
        more = max(0, zeros - tensor.front[rank])
        tensor.front[rank] += more
        tensor.extents[rank] = max(tensor.extents[rank] + more, wanted[rank] + tensor.front[rank] - zeros)
    return _Access(tensor, operand, front)


def _fronts(operand: Operand, layer: Layer, own: Sequence[int], wanted: Sequence[int]) -> tuple[int, ...] | None:
    """Zeros in front of each rank: those of the file, or half of what a window lacks."""
    fronts: list[int] = []
    for name, index, have, want in zip(operand.names, operand.index, own, wanted, strict=True):
        if name in layer.padding:
            fronts.append(layer.padding[name])
        elif want <= have:
            fronts.append(0)
        elif len(index.terms) > 1 and want - have <= _window(index, layer):
            fronts.append(-(-(want - have) // 2))
        else:
            return None
    return tuple(fronts)


def _window(index: Affine, layer: Layer) -> int:
    """How far a window reaches beyond its first value."""
    variable, factor = index.terms[-1]
    return factor * (layer.extents[variable] - 1)


def _shape(extents: Iterable[int]) -> str:
    return " x ".join(map(str, extents))


def _free(name: str, taken: set[str]) -> str:
    while name in taken or name in RESERVED or not is_name(name):
        name += "_"
    taken.add(name)
    return name
