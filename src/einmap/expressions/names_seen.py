"""Names that an expression sees: the words in it, and whether it looks at names themselves or at their meanings."""

from __future__ import annotations

import ast
import re
from functools import lru_cache

from einmap.errors import ExpressionError
from einmap.expressions.evaluator.syntax import one_line, parse

_WORD = re.compile(r"[^\W\d]\w*")
_LISTING = ("enumerate", "list", "map", "str", "tuple")
"""Functions that make texts or lists of the names in a set."""
_SETS = ("tensors", "rank_variables", "last_rank_variables")
"""Attributes that are sets of names, whatever they are of."""


@lru_cache(maxsize=1000)
def words(text: str) -> tuple[str, ...]:
    """All that an expression of this text may look up, as it is written and as Python reads it, in order of letters."""
    tree = _tree(text)
    found = set(_WORD.findall(text))
    for node in () if tree is None else ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Constant(value=str(name)):
                found.update(_WORD.findall(name))
            case _:
                pass
    return tuple(sorted(found))


@lru_cache(maxsize=1000)
def looked_for(text: str) -> frozenset[str] | None:
    """Names of values that the expression looks for in others: it is blind to names in sets if these are sets, too.

    None where it looks at names in sets anyway: lists them, say. A text that is not an expression sees nothing.
    """
    tree = _tree(text)
    if tree is None:
        return frozenset()
    nodes = list(ast.walk(tree))
    if not all(map(_is_blind, nodes)):
        return None
    tests = (node for node in nodes if isinstance(node, ast.Compare) and _is_test(node) and not _is_listed(node))
    return frozenset(test.left.id for test in tests if isinstance(test.left, ast.Name))


def _tree(text: str) -> ast.expr | None:
    try:
        return parse(one_line(text))
    except ExpressionError:
        return None


def _is_blind(node: ast.AST) -> bool:
    match node:
        case ast.Starred():
            return False
        case ast.comprehension(iter=source):
            return isinstance(source, ast.Name) and source.id == "actions"
        case ast.Name(id=name):
            return name not in _LISTING
        case ast.Compare() if _is_test(node):
            return _is_listed(node) or (len(node.ops) == 1 and _is_plain(node.left))
        case _:
            return True


def _is_test(node: ast.Compare) -> bool:
    return any(isinstance(op, ast.In | ast.NotIn) for op in node.ops)


def _is_listed(node: ast.Compare) -> bool:
    """Whether something is looked for among values that are written there: `x in ("read", "write")`."""
    among = node.comparators[0]
    return (
        len(node.ops) == 1
        and isinstance(among, ast.Tuple | ast.List | ast.Set)
        and all(isinstance(element, ast.Constant) for element in among.elts)
    )


def _is_plain(node: ast.expr) -> bool:
    """A set, or a text that is written there; a text that is made, of parts say, could be any name."""
    return isinstance(node, ast.Name | ast.Constant) or (isinstance(node, ast.Attribute) and node.attr in _SETS)
