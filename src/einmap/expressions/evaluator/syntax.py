"""Text to syntax tree: Python's grammar, and of it only what an expression may use."""

from __future__ import annotations

import ast
import warnings
from functools import lru_cache

from einmap.errors import ExpressionError
from einmap.expressions.evaluator.budget import MAX_DEPTH, MAX_TEXT
from einmap.expressions.quantities import unit_hint

_ALLOWED = (
    *(ast.Constant, ast.Name, ast.List, ast.Tuple, ast.Set, ast.Dict),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp),
    *(ast.Attribute, ast.Subscript, ast.Slice, ast.Call, ast.keyword, ast.Starred),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.comprehension),
    *(ast.operator, ast.unaryop, ast.boolop, ast.cmpop, ast.expr_context),
)
_NAMED = {
    ast.Lambda: "lambda",
    ast.NamedExpr: "`:=`",
    ast.JoinedStr: "an f-string",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.MatMult: "`@`",
}

_INSTEAD = "write a comprehension, or give a function of your own (--allow-code FILE, load(..., functions={...}))"


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr:
    """The checked syntax tree of an expression. Raises ExpressionError (without a place)."""
    check_text_length(text)
    tree = _python_tree(text)
    _check(tree)
    return tree


def check_text_length(text: str) -> None:
    """Raise ExpressionError for a text that is too long to be an expression."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(f"an expression of {len(text)} characters; at most {MAX_TEXT} are allowed")


def one_line(text: str) -> str:
    """Folded text as Python reads it: line ends are blanks."""
    return " ".join(text.strip().splitlines())


def shortened(text: str, limit: int = 80) -> str:
    """A text of the user within a message, in quotes, and not too long."""
    return repr(text if len(text) <= limit else text[: limit - 3] + "...")


def quoted(text: str, limit: int = 60) -> str:
    """Text within a message: in back quotes, and not too long."""
    return f"`{text if len(text) <= limit else text[: limit - 3] + '...'}`"


def _python_tree(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python's advice on style, e.g. for `1if x else 2`
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{quoted(text)} is not an expression: {error.msg}", hint=unit_hint(text)) from None
    except (ValueError, MemoryError, RecursionError):
        raise ExpressionError(f"{quoted(text)} is not an expression, or nested too deeply") from None


def _check(tree: ast.expr) -> None:
    """Refuse what is not allowed; a loop of its own, since the tree may be deeper than Python's stack."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 1)]
    while waiting:
        node, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ExpressionError(f"the expression is nested more than {MAX_DEPTH} levels deep")
        problem = _problem(node)
        if problem:
            hint = _INSTEAD if isinstance(node, ast.Lambda) else None
            raise ExpressionError(f"{problem} is not allowed in an expression", hint=hint)
        for child in ast.iter_child_nodes(node):
            is_chain = isinstance(node, ast.BinOp) and isinstance(child, ast.BinOp) and child is node.left
            waiting.append((child, depth if is_chain else depth + 1))


def _problem(node: ast.AST) -> str | None:
    """The mistake in this node alone; None without one."""
    if type(node) in _NAMED:
        return _NAMED[type(node)]
    match node:
        case ast.Constant(value=bool() | int() | float() | str() | None):
            return None
        case ast.Constant(value=value):
            return f"{value!r}"
        case ast.Attribute(attr=name) | ast.Name(id=name) if name.startswith("__"):
            return f"the name {name!r}"
        case ast.keyword(arg=None):
            return "`**` for a dictionary"
        case ast.Dict(keys=keys) if None in keys:
            return "`**` for a dictionary"
        case ast.comprehension(is_async=1):
            return "async"
        case _ if not isinstance(node, _ALLOWED):
            return type(node).__name__
        case _:
            return None
