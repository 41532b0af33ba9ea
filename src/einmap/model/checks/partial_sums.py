"""Partial sums with a width of their own: what they do not go together with yet."""

from __future__ import annotations

from einmap.arch.component import Memory, is_carrying
from einmap.arch.tree import Architecture
from einmap.errors import NotSupportedError
from einmap.model.counting.semantics import Semantics
from einmap.spec.spec import Spec


def check_partial_sums(spec: Spec, rules: Semantics) -> None:
    """Raise NotSupportedError where `partial_bits_per_value` meets what has one width for each tensor."""
    for einsum in spec.workload.einsums:
        for tensor in einsum.partial_bits:
            other, hint = _one_width(spec.arch(einsum.name), tensor), "leave out one of the two"
            if not rules.partial_sums:
                other, hint = f"the preset {rules.name!r}", "evaluate with semantics: exact"
            if other is not None:
                raise NotSupportedError(
                    f"partial_bits_per_value of {tensor!r}: {other} has one width for each tensor",
                    at=spec.provenance("workload.partial_bits_per_value"),
                    hint=hint,
                )


def _one_width(arch: Architecture, tensor: str) -> str | None:
    for leaf in arch.leaves.values():
        if is_carrying(leaf):
            return f"the network {leaf.name!r}"
        if isinstance(leaf, Memory) and leaf.wind_up:
            return f"wind_up of {leaf.name!r}"
        if isinstance(leaf, Memory) and leaf.is_spread:
            return f"{leaf.name!r}, which is several units,"
        if isinstance(leaf, Memory) and tensor in leaf.layouts:
            return f"its layout in {leaf.name!r}"
    return None
