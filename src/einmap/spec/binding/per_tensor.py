"""Dictionaries keyed by set expressions: `{Inputs: 8, Other: 16}`, spread over the tensors of an Einsum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from einmap.errors import At, SpecError
from einmap.expressions.arithmetic import tensor_set
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet

_OTHER = re.compile(r"(?<![\w.])Other(?!\w)")


def per_tensor(written: Mapping[str, Any], everything: NameSet, scope: Scope, where: Any) -> dict[str, tuple[Any, At]]:
    """A dictionary keyed by set expressions, spread over the tensors of `everything`: value and place of each.

    Keys must be disjoint; `Other` is what no other key covers. Raises SpecError naming the overlap.
    """
    values: dict[str, tuple[Any, At]] = {}
    taken: dict[str, str] = {}
    others = [key for key in written if _OTHER.search(key)]
    if len(others) > 1:
        raise SpecError("`Other` may appear once in a dictionary", at=where(others[1]))
    for key in (*(k for k in written if k not in others), *others):
        at = where(key)
        names = scope
        if key in others:
            others_set = everything.with_members(everything.universe - frozenset(values))
            names = scope.layer({"Other": others_set})
        members = tensor_set(key, names, at=at).members
        clash = sorted(members & frozenset(values))
        if clash:
            raise SpecError(
                f"keys {taken[clash[0]]!r} and {key!r} overlap on {{{', '.join(clash)}}}",
                at=at,
                hint="use `Other`",
            )
        for tensor in sorted(members):
            values[tensor] = (written[key], at)
            taken[tensor] = key
    return values
