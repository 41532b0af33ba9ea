"""Formats that a specification leaves open (`formats: {Buffer: {A: [csr, coo]}}`): what there is to choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from einmap.errors import SpecError
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.binding.sparsity import is_choice
from einmap.spec.raw import Path, get_value, place, to_python
from einmap.spec.spec import Spec


@dataclass(frozen=True, eq=False)
class FormatChoice:
    """The formats, as they are written, among which one is to be chosen for a tensor in a memory."""

    memory: str
    tensor: str
    alternatives: tuple[Any, ...]


def open_formats(spec: Spec) -> list[FormatChoice]:
    """Formats that are open and not chosen. Raises SpecError for a tensor that has several lists of alternatives."""
    if spec.raw.get("sparsity") is None:
        return []
    given = spec.bindings.sparsity_input
    if not any(is_choice(one) for of_memory in given.formats.values() for one in of_memory.values()):
        return []
    found: dict[tuple[str, str], FormatChoice] = {}
    for einsum in spec.bound_workload.einsums.values():
        symbols = einsum.symbols
        scope = spec.bindings.arch_scope.layer(dict(symbols))
        for memory, of_memory in given.formats.items():
            path = ("sparsity", "formats", memory)
            table = per_tensor(of_memory, symbols["All"], scope, lambda key, path=path: place(spec.raw, (*path, key)))
            for tensor, (one, at) in table.items():
                if not is_choice(one) or tensor in given.chosen.get(memory, {}):
                    continue
                key = next(key for key, value in of_memory.items() if value is one)
                choice = FormatChoice(memory, tensor, _alternatives(spec, (*path, key)))
                known = found.setdefault((memory, tensor), choice)
                if known.alternatives != choice.alternatives:
                    text = f"{tensor!r} has other alternatives in {memory!r} for other Einsums"
                    raise SpecError(text, at=at, hint="name the tensor in a key of its own")
    return list(found.values())


def _alternatives(spec: Spec, path: Path) -> tuple[Any, ...]:
    """The formats of a list, each once, as plain Python."""
    written = to_python(get_value(spec.raw, path))
    return tuple(one for number, one in enumerate(written) if one not in written[:number])
