"""A workload as a graph: tensors flow into Einsums and out of them, from top to bottom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.notation import pretty
from einmap.einsum.spaces.projection import Lookup
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean
from einmap.report.drawing.font import GLUE
from einmap.report.drawing.layered import graph_layout
from einmap.report.drawing.page import Entry, Heading, page
from einmap.report.drawing.shapes import Line, Picture, Shape, text_lines
from einmap.report.drawing.theme import BLUE, GREEN, LIGHT, ORANGE, Theme
from einmap.units import format_bits

WIDEST = 300.0
MOST_NAMES = 20
"""Einsums that a title names."""
_ROLES = {"input": BLUE, "intermediate": ORANGE, "output": GREEN}


def workload_picture(
    workload: Workload, *, einsum: str | None = None, title: str = "", theme: Theme = LIGHT
) -> Picture:
    """The cascade, or one Einsum of it. Raises SpecError when there is no such Einsum."""
    einsums = workload.einsums if einsum is None else (_named(workload, einsum),)
    definitions = _definitions(einsums)
    shapes = [_einsum_shape(e, theme) for e in einsums]
    shapes += [_tensor_shape(e, access, _role(workload, name), theme) for name, (e, access) in definitions.items()]
    tensor_place = {name: len(einsums) + index for index, name in enumerate(definitions)}
    edges = [
        (place, tensor_place[access.tensor]) if access.output else (tensor_place[access.tensor], place)
        for place, e in enumerate(einsums)
        for access in e.accesses
    ]
    heading = Heading(
        title or f"Workload: {_listed([einsum.name for einsum in einsums])}",
        f"the whole runs {workload.n_instances:,} times" if workload.n_instances > 1 else "",
        "\n".join(equation(e).replace(GLUE, " ") for e in einsums),
    )
    roles = {_role(workload, name) for name in definitions}
    legend = [Entry("box", theme.paint(None), "Einsum")]
    legend += [Entry("pill", theme.paint(hue), f"{role} tensor") for role, hue in _ROLES.items() if role in roles]
    return page(graph_layout(shapes, edges), heading, legend, theme)


def equation(einsum: Einsum) -> str:
    """`Z[m, n] = A[m, k] * B[k, n]`; a reduction other than the sum is named."""
    reduction = einsum.operation.reduction
    text = pretty.equation(einsum, lambda projection: f",{GLUE}".join(str(index) for _, index in projection))
    return text + (f" (reduced by {reduction})" if reduction != "sum" else "")


def _listed(names: Sequence[str]) -> str:
    """All names, or of many the first ones and the last."""
    if len(names) <= MOST_NAMES:
        return ", ".join(names)
    return f"{', '.join(names[:3])}, ..., {names[-1]} ({len(names):,} Einsums)"


def _named(workload: Workload, name: str) -> Einsum:
    if name not in workload.by_name:
        hint = did_you_mean(name, workload.by_name, listing="Einsums")
        raise SpecError(f"the workload has no Einsum {name!r}", hint=hint)
    return workload.by_name[name]


def _definitions(einsums: Sequence[Einsum]) -> Mapping[str, tuple[Einsum, TensorAccess]]:
    """For each tensor the access that writes it, or else the first one, in order of first use."""
    definitions: dict[str, tuple[Einsum, TensorAccess]] = {}
    for einsum in einsums:
        for access in einsum.accesses:
            if access.output or access.tensor not in definitions:
                definitions[access.tensor] = einsum, access
    return definitions


def _role(workload: Workload, tensor: str) -> str:
    if tensor in workload.intermediates:
        return "intermediate"
    return "output" if tensor in workload.producers else "input"


def _einsum_shape(einsum: Einsum, theme: Theme) -> Shape:
    text = equation(einsum)
    bounds = ", ".join(f"{variable} {extent:,}" for variable, extent in einsum.bounds)
    lines = text_lines(einsum.name, WIDEST, 13, bold=True) + text_lines(text, WIDEST)
    if einsum.is_copy:
        lines.append(Line("copy", 11, muted=True))
    if einsum.n_instances > 1:
        lines.append(Line(f"{einsum.n_instances:,} instances", 11, muted=True))
    return Shape("box", tuple(lines), theme.paint(None), f"{text.replace(GLUE, ' ')}\n{bounds}")


def _tensor_shape(einsum: Einsum, access: TensorAccess, role: str, theme: Theme) -> Shape:
    extents = [index.size if isinstance(index, Lookup) else index.extent(einsum.extents) for _, index in access.written]
    bits = math.prod(extents) * access.bits_per_value
    lines = text_lines(access.tensor, WIDEST, 13, bold=True)
    lines += text_lines(" × ".join(f"{extent:,}" for extent in extents) or "1", WIDEST)
    lines.append(Line(format_bits(bits) + (", persistent" if access.persistent else ""), 11, muted=True))
    ranks = ", ".join(rank for rank, _ in access.written)
    tip = f"{access.tensor}[{ranks}], {role}, {access.bits_per_value:g} bits per value"
    return Shape("pill", tuple(lines), theme.paint(_ROLES[role]), tip)
