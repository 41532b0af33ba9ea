"""Einsums for which the architecture means the same but for names, so that it is bound once for all of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Positions, structure
from einmap.errors import ExpressionError
from einmap.expressions.sets import NameSet
from einmap.expressions.syntax import one_line, parse
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar

_WORD = re.compile(r"[^\W\d]\w*")
_LISTING = ("enumerate", "list", "map", "str", "tuple")
"""Functions that make texts or lists of the names in a set."""


class Likeness:
    """Tells for which Einsums the architecture of one specification is the same but for names.

    An expression sees an Einsum through the names in it and what they mean. Binding is a matter of the meaning by
    position alone, unless an expression looks at names themselves (lists them, tests for them) or calls functions of
    the user, which may do so.
    """

    def __init__(self, root: RawMap, functions: Mapping[str, Callable[..., Any]], *, by_name: bool = False) -> None:
        """`by_name`: whether the architecture speaks of ranks, by names that are no symbols."""
        texts = [text for key in ("arch", "variables") for text in _texts(root.get(key))]
        self._words = sorted({word for text in texts for word in _WORD.findall(text)})
        self._is_blind = not (functions or by_name) and all(map(_is_blind, set(texts)))

    def key(self, einsum: Einsum, symbols: Mapping[str, NameSet]) -> Hashable:
        """Equal for two Einsums only if their architectures are the same but for names. `symbols`: of the Einsum."""
        # `actions` is the one list that expressions may go through: no set may have its name
        if not self._is_blind or "actions" in symbols:
            return einsum.name
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


def _is_blind(text: str) -> bool:
    """Whether a text, if it is an expression, never looks at the names in a set."""
    try:
        tree = parse(one_line(text))
    except ExpressionError:  # not an expression
        return True
    return all(map(_node_is_blind, ast.walk(tree)))


def _node_is_blind(node: ast.AST) -> bool:
    match node:
        case ast.Starred():
            return False
        case ast.comprehension(iter=source):
            return isinstance(source, ast.Name) and source.id == "actions"
        case ast.Name(id=name):
            return name not in _LISTING
        case ast.Compare(left=left, ops=ops) if any(isinstance(op, ast.In | ast.NotIn) for op in ops):
            return len(ops) == 1 and isinstance(left, ast.Name | ast.Attribute | ast.Constant)
        case _:
            return True
