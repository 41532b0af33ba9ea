"""The collected Einsums as the section `workload` of a specification."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from einmap.einsum.notation.parse import format_projection
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, format_map
from einmap.einsum.rewrites.edit import substituted
from einmap.einsum.spaces.projection import Affine
from einmap.frontends.cascade.program import ROLES, Access, CascadeEinsum, Program, Stored

WIDTH = 100
"""Characters of a set of tensors in one line."""


def workload_of(program: Program, einsums: Iterable[CascadeEinsum]) -> dict[str, Any]:
    """A dictionary for the key `workload`: Einsums, bounds of their rank variables, bits of the tensors."""
    writer = _Writer(program)
    listed = [writer.einsum(einsum) for einsum in einsums]
    shape = {variable: f"0 <= {variable} < {extent}" for variable, extent in writer.extents.items()}
    return {"iteration_space_shape": shape, "bits_per_value": writer.bits_per_value(), "einsums": listed}


@dataclass(slots=True)
class _Writer:
    """Names of ranks and rank variables, given when they are first needed."""

    program: Program
    variables: dict[tuple[str, int], str] = field(default_factory=dict)
    extents: dict[str, int] = field(default_factory=dict)
    ranks: dict[str, list[str]] = field(default_factory=dict)
    tensors: dict[str, Stored] = field(default_factory=dict)

    def einsum(self, einsum: CascadeEinsum) -> dict[str, Any]:
        """One Einsum in the concise form."""
        names = self._variable_names(einsum)
        table = {old: Affine(((new, 1),)) for old, new in names.items()}
        plain = {
            place: self._access(access, table) for place, access in enumerate(einsum.inputs) if not access.looked_up
        }
        texts = [plain.get(i) or self._access(access, table, plain) for i, access in enumerate(einsum.inputs)]
        operation = _with_texts(einsum.expression, texts)
        written = {"einsum": f"{self._access(einsum.output, table)} = {format_map(operation)}"}
        return {**written, **self._fields(einsum, table)}

    def _fields(self, einsum: CascadeEinsum, table: Mapping[str, Affine]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if einsum.reduction != "sum":
            fields["reduction"] = einsum.reduction
        if einsum.instances > 1:
            fields["n_instances"] = einsum.instances
        if einsum.is_copy:
            fields["is_copy_operation"] = True
        sizes = {
            self.ranks[a.tensor.name][rank]: a.tensor.sizes[rank] for a in einsum.inputs for rank, _ in a.looked_up
        }
        if sizes:
            fields["rank_sizes"] = sizes
        if einsum.cuts:
            fields["iteration_space_shape"] = [f"0 <= {substituted(i, table)} < {size}" for i, size in einsum.cuts]
        # an architecture tells contractions from the rest by whether there is a weight
        weight = None if einsum.weight is None else einsum.inputs[einsum.weight].tensor.name
        others = list(dict.fromkeys(a.tensor.name for a in einsum.inputs if a.tensor.name != weight))
        if weight is None or not others:
            sets = "Inputs", "Nothing", "Outputs"
        else:
            sets = " | ".join(others), weight, "Outputs"
        fields["renames"] = dict(zip(ROLES, sets, strict=True))
        return fields

    def _variable_names(self, einsum: CascadeEinsum) -> dict[str, str]:
        """A name for each rank variable: its hint, or that of a rank that it indexes alone, and its extent."""
        names: dict[str, str] = {}
        for variable, extent in einsum.extents.items():
            base = einsum.hints[variable] or self._rank_base(einsum, variable) or "x"
            name = self._free(base, extent, set(names.values()))
            names[variable] = name
            self.extents[name] = extent
        return names

    def _rank_base(self, einsum: CascadeEinsum, variable: str) -> str:
        alone = ((variable, 1),)
        for access in einsum.inputs:
            for rank, index in zip(self.ranks.get(access.tensor.name, ()), access.index, strict=False):
                if index.terms == alone:
                    return rank.rstrip("0123456789_").lower()
        return ""

    def _free(self, base: str, extent: int, taken: set[str]) -> str:
        """`m64` for a variable of 64 values, `m64_2` for a second one in the same Einsum."""
        number = 1
        while True:
            name = f"{base}{extent}" if number == 1 else f"{base}{extent}_{number}"
            if name not in taken:
                return name
            number += 1

    def _access(self, access: Access, table: Mapping[str, Affine], texts: Mapping[int, str] | None = None) -> str:
        """`A[m, k]`; `texts`: the index tensors of what is looked up."""
        tensor = access.tensor
        self.tensors.setdefault(tensor.name, tensor)
        index = [
            substituted(replace(i, constant=i.constant + self.program.margin(tensor, rank)[0]), table)
            for rank, i in enumerate(access.index)
        ]
        looked_up = dict(access.looked_up)
        named = [Affine(((f"v{tensor.sizes[rank]}", 1),)) if rank in looked_up else i for rank, i in enumerate(index)]
        ranks = self.ranks.setdefault(tensor.name, _rank_names(tensor, named))
        parts = [
            f"{name}: {(texts or {})[looked_up[rank]]}" if rank in looked_up else format_projection(((name, i),))
            for rank, (name, i) in enumerate(zip(ranks, index, strict=True))
        ]
        return f"{tensor.name}[{', '.join(parts)}]"

    def bits_per_value(self) -> dict[str, int]:
        """Bits by set of tensors: the number that most have is for `Other`, if there are several."""
        by_bits: dict[int, list[str]] = {}
        for name, tensor in self.tensors.items():
            by_bits.setdefault(tensor.bits, []).append(name)
        if len(by_bits) == 1:
            return {"All": next(iter(by_bits))}
        most = max(by_bits, key=lambda bits: len(by_bits[bits]))
        few = {line: bits for bits, names in by_bits.items() if bits != most for line in _lines(names)}
        return {**few, "Other": most}


def _lines(names: Iterable[str]) -> list[str]:
    """Sets of names, each in one line of a file: `A | B`."""
    lines: list[str] = []
    for name in names:
        if lines and len(lines[-1]) + len(name) < WIDTH:
            lines[-1] += f" | {name}"
        else:
            lines.append(name)
    return lines


def _rank_names(tensor: Stored, index: Iterable[Affine]) -> list[str]:
    """Ranks called as the rank variables that index them where the tensor is first used, or by letter and size."""
    names: list[str] = []
    for i, size in zip(index, tensor.sizes, strict=True):
        first = i.terms[0][0] if i.terms else "o"
        letter = first.rstrip("0123456789_")
        base = first if len(i.terms) == 1 and i.terms[0][1] == 1 else f"{_SLID.get(letter, letter)}{size}"
        name, number = base, 2
        while name in names:
            name, number = f"{base}_{number}", number + 1
        names.append(name)
    return [name.upper() for name in names]


_SLID = {"p": "h", "q": "w", "o": "d"}
"""Axes over which windows slide, by the letter of the output's axis."""


def _with_texts(expression: MapExpression, texts: list[str]) -> MapExpression:
    """The expression with operands that are written out, `A[m, k]` for `0`."""
    match expression:
        case Operand(number):
            return Operand(texts[int(number)])
        case Apply(function, arguments):
            return Apply(function, tuple(_with_texts(a, texts) for a in arguments))
        case Number():
            return expression
