"""The section `workload` for AccelForge: plain numbers, and renames at each Einsum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.einsum.gather import refuse_gathers
from einmap.einsum.spaces.projection import Affine
from einmap.expressions.sets import NameSet
from einmap.frontends.foreign import Report
from einmap.spec.forms.write_workload import write_workload
from einmap.spec.names import RESERVED
from einmap.spec.raw import LiteralString
from einmap.spec.spec import Spec

type Names = Mapping[tuple[str, str], str]
"""The name of a rank variable there, by Einsum and the name here, where it has another one."""

_PARTIAL = "partial_bits_per_value"
_LEFT = {
    "operation": "what is computed changes no count there",
    "reduction": "how values become one changes no count there",
    "part": "parts of a training step have no field there, and change no count",
    "compute": "which compute does an Einsum follows from `enabled` there",
}


def write_einsums(spec: Spec, names: Names, report: Report) -> dict[str, Any]:
    """The workload as plain dictionaries, each Einsum with the renames that hold for it.

    AccelForge 1.0.467 passes over renames of named Einsums at the top level, so they stand at the Einsums.
    """
    workload = spec.workload
    refuse_gathers(workload.einsums, "a workload of AccelForge", lambda n: spec.provenance(f"workload.einsums[{n}]"))
    written = write_workload(workload)
    symbols = spec.bound_workload.symbols
    known = {*RESERVED, *workload.tensors, *(v for einsum in workload.einsums for v in einsum.rank_variables)}
    for number, (einsum, fields) in enumerate(zip(workload.einsums, written["einsums"], strict=True)):
        at = replace(spec.provenance("workload.einsums"), path=f'workload.einsums[{number}] "{einsum.name}"')
        for key, reason in _LEFT.items():
            if fields.pop(key, None) is not None:
                report.leave(at, key, reason)
        if any(access.partial_bits is not None for access in einsum.accesses):
            report.leave(at, _PARTIAL, "partial sums are as wide as results there")
            for access in fields["tensor_accesses"]:
                access.pop(_PARTIAL, None)
        if einsum.is_copy:
            report.leave(at, "is_copy_operation", "copies are written, and may be counted otherwise in 1.0.467")
        _rename(einsum, fields, names)
        # what a name stands for is evaluated, so that it means the same whatever AccelForge makes of an expression
        if renames := _renames(einsum, {n: s for n, s in symbols[einsum.name].items() if n not in known}, names):
            fields["renames"] = renames
    return written


def _rename(einsum: Einsum, fields: dict[str, Any], names: Names) -> None:
    """Rank variables that have another name there: the Einsum in the long form, in which ranks keep their names."""
    table = {v: names.get((einsum.name, v), v) for v in einsum.rank_variables}
    fields["name"] = einsum.name
    if all(old == new for old, new in table.items()) and "einsum" in fields and einsum.name == _output(einsum):
        del fields["name"]
        return
    if "einsum" in fields:
        del fields["einsum"]
        fields["tensor_accesses"] = [
            {"name": a.tensor} | ({"output": True} if a.output else {}) | ({"persistent": True} if a.persistent else {})
            for a in einsum.accesses
        ]
    for access, written in zip(einsum.accesses, fields["tensor_accesses"], strict=True):
        written["projection"] = {rank: LiteralString(_index(index, table)) for rank, index in access.projection}
    if "iteration_space_shape" in fields:
        fields["iteration_space_shape"] = [
            LiteralString(_replaced(str(text), table)) for text in fields["iteration_space_shape"]
        ]


def _output(einsum: Einsum) -> str:
    return next(access.tensor for access in einsum.accesses if access.output)


def _index(index: Affine, table: Mapping[str, str]) -> str:
    return str(replace(index, terms=tuple((table[v], a) for v, a in index.terms)))


def _replaced(text: str, table: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda word: table.get(word[0], word[0]), text)


def _renames(einsum: Einsum, symbols: Mapping[str, NameSet], names: Names) -> dict[str, str]:
    """Each name and the tensors or rank variables that it stands for."""
    result: dict[str, str] = {}
    for name, found in symbols.items():
        members = sorted(names.get((einsum.name, member), member) for member in found.members)
        result[name] = " | ".join(members) or "Nothing"
    return result
