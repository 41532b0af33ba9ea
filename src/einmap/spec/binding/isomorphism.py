"""Einsums for which the architecture means the same but for names, so that it is bound once for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Positions, structure
from einmap.expressions.names_seen import looked_for, words
from einmap.expressions.sets import NameSet
from einmap.spec.binding.bind_arch import ArchInputs
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar
from einmap.spec.schema.arch import MemoryInput


def names_ranks(arch: ArchInputs) -> bool:
    """Whether the architecture speaks of ranks, in layouts: by names that are not symbols of an expression."""
    return any(isinstance(leaf.given, MemoryInput) and leaf.given.layout for leaf in arch.leaves)


class Likeness:
    """Tells for which Einsums the architecture of one specification is the same but for names.

    An expression sees an Einsum through the names in it and what they mean. Binding is a matter of the meaning by
    position alone, unless an expression looks at names themselves (lists them, tests for them) or calls functions of
    the user, which may do so.
    """

    def __init__(self, root: RawMap, functions: Mapping[str, Callable[..., Any]], *, by_name: bool = False) -> None:
        """`by_name`: whether the architecture speaks of ranks, by names that are not symbols."""
        texts = {text for key in ("arch", "variables") for text in _texts(root.get(key))}
        self._words = sorted(frozenset().union(*map(words, texts)))
        tests = [looked_for(text) for text in texts]
        self._is_blind = not (functions or by_name) and None not in tests
        self._looked_for = frozenset().union(*(names for names in tests if names is not None))
        # a variable or an attribute of this name would win over a set
        self._given = frozenset(key for part in ("arch", "variables") for key in _keys(root.get(part)))

    def key(self, einsum: Einsum, symbols: Mapping[str, NameSet]) -> Hashable:
        """Equal for two Einsums only if their architectures are the same but for names. `symbols`: of the Einsum."""
        # `actions` is the one list that expressions may go through: no set may have its name
        if not self._is_blind or "actions" in symbols:
            return einsum
        if self._looked_for & self._given or not all(name in symbols for name in self._looked_for):
            return einsum
        positions = Positions(einsum)
        meanings = []
        for word in self._words:
            names = symbols.get(word)
            if names is not None:
                of_kind = positions.of_tensors if names.kind == "tensors" else positions.of_variables
                meanings.append((word, names.kind, of_kind(names.members)))
        return structure(einsum), tuple(meanings)


def _texts(raw: Raw | None) -> Iterator[str]:
    match raw:
        case RawScalar(value=str(text)):
            yield text
        case RawList(items=items):
            for item in items:
                yield from _texts(item)
        case RawMap(items=pairs):
            for key, value in pairs:
                yield key
                yield from _texts(value)
        case _:
            return


def _keys(raw: Raw | None) -> Iterator[str]:
    match raw:
        case RawList(items=items):
            for item in items:
                yield from _keys(item)
        case RawMap(items=pairs):
            for key, value in pairs:
                yield key
                yield from _keys(value)
        case _:
            return
