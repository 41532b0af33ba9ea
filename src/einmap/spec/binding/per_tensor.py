"""Dictionaries keyed by set expressions: `{Inputs: 8, Other: 16}`, spread over the tensors of an Einsum."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from einmap.errors import At, SpecError
from einmap.expressions.arithmetic import tensor_set
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet

_OTHER = re.compile(r"(?<![\w.])Other(?!\w)")
_UNION = re.compile(r"\s*[^\W\d]\w*(\s*\|\s*[^\W\d]\w*)*\s*", re.ASCII)


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
        members = _union_of_names(key, scope)
        if members is not None and not members:
            continue
        at = where(key)
        names = scope
        if key in others:
            others_set = everything.with_members(everything.universe - frozenset(values))
            names = scope.layer({"Other": others_set})
        members = tensor_set(key, names, at=at).members if members is None else members
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


@lru_cache(maxsize=4096)
def _named(key: str) -> tuple[str, ...] | None:
    """The names of `A | B | C`; None of another expression."""
    return tuple(name.strip() for name in key.split("|")) if _UNION.fullmatch(key) else None


def _union_of_names(key: object, scope: Scope) -> frozenset[str] | None:
    """The tensors of a key that is a union of names, which lists of imported models are: it is not evaluated, since
    every Einsum reads every such list. None where a name is not one of tensors, and of other expressions.
    """
    names = _named(key) if isinstance(key, str) and "Other" not in key else None
    if names is None:
        return None
    members: frozenset[str] = frozenset()
    for name in names:
        found = scope.get(name)
        if not isinstance(found, NameSet) or found.kind != "tensors":
            return None
        if found.members:
            members |= found.members
    return members
