"""Attention with a causal mask as an iteration space, `p <= m`: rows end at a bound, tiles behind it are left out.

Scores are computed tile by tile, also a few behind the bound, which nothing reads. Numerators behind it are 0, so that
products over whole tiles are right where the other factor is finite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from einmap.einsum.einsum import Einsum
from einmap.errors import NotSupportedError

FORM = re.compile(r"(\w+) - (\w+) >= (-?\d+)")
"""A constraint as workloads have it: `m - p >= -5` for `p <= m + 5`."""


@dataclass(frozen=True, slots=True)
class Bound:
    """`variable` is at most `row` plus `more`."""

    variable: str
    row: str
    more: int


def bound_of(einsum: Einsum) -> Bound | None:
    """The bound of an Einsum, None for none. Raises NotSupportedError for constraints of another form."""
    if not einsum.cuts:
        return None
    found = FORM.fullmatch(einsum.cuts[0])
    if len(einsum.cuts) > 1 or found is None or int(found[3]) > 0:
        _refuse(einsum, f"has the constraint {', '.join(einsum.cuts)!r} on its iteration space, not one like p <= m")
    return Bound(found[2], found[1], -int(found[3]))


def check_bounds(einsums: Mapping[str, Einsum], intermediates: frozenset[str], maps: frozenset[str]) -> None:
    """Refuse bounds that lead to values which are read but not there. `maps`: Einsums that fill up with zeros."""
    writers = {t: e for e in einsums.values() for t in e.outputs}
    for einsum in einsums.values():
        bound = bound_of(einsum)
        for tensor in sorted(einsum.inputs & writers.keys()):
            before = bound_of(writers[tensor])
            if before is not None and _has(writers[tensor], tensor, before) and before != bound:
                _refuse(einsum, f"reads {tensor!r} beyond the bound within which it is written")
        if bound is None:
            continue
        (output,) = einsum.outputs
        if _has(einsum, output, bound) and output not in intermediates:
            _refuse(einsum, f"writes {output!r}, a result, within a bound alone")
        read = {t: writers[t] for t in einsum.inputs & writers.keys() if _has(einsum, t, bound)}
        filled = any(writer.name in maps and bound_of(writer) == bound for writer in read.values())
        if einsum.name not in maps and bound.variable not in einsum.by_tensor[output].variables and not filled:
            _refuse(einsum, f"sums over {bound.variable!r} within a bound, and no factor is 0 behind it")


def _has(einsum: Einsum, tensor: str, bound: Bound) -> bool:
    return {bound.variable, bound.row} <= einsum.by_tensor[tensor].variables


def _refuse(einsum: Einsum, text: str) -> NoReturn:
    raise NotSupportedError(
        f"Einsum {einsum.name!r} {text}; fast code for that cannot be emitted yet",
        hint="leave out --fast of einmap emit",
    )
