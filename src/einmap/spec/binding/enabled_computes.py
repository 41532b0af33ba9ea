"""Which computes an Einsum may run on: those that it names, or those that the architecture enables for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import At, SpecError, did_you_mean


def with_computes(arch: Architecture, einsum: Einsum, named: Callable[[], At], at: At) -> Architecture:
    """`arch` with the computes enabled that the Einsum names, and no others; as it is where it names none.

    `named`: where the Einsum names them; `at`: where the architecture is written. Raises SpecError where a name is not
    that of a Compute, and where no compute is enabled.
    """
    units = {unit.name: unit for unit in arch.computes}
    for name in einsum.computes:
        if name not in units:
            text = f"Einsum {einsum.name!r} names the compute {name!r}, which the architecture does not have"
            raise SpecError(text, at=named(), hint=did_you_mean(name, units, listing="computes"))
    for unit in units.values() if einsum.computes else ():
        arch = arch.with_leaf(replace(unit, enabled=unit.name in einsum.computes))
    if not any(unit.enabled for unit in arch.computes):
        tensors = f"tensors of the Einsum: {', '.join(sorted(einsum.tensors))}"
        text = f"Einsum {einsum.name!r} has no path: all computes are disabled for it ({', '.join(units)}); {tensors}"
        raise SpecError(text, at=at, hint="name one of them in `compute` of the Einsum, or alter `enabled`")
    return arch
