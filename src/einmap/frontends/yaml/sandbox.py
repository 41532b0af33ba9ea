"""The Jinja2 environment of specification files: sandboxed, strict, and bounded in work and memory.

Jinja2's own sandbox keeps templates away from Python's internals and limits `range`. A hostile file
could still loop, recurse or double a text without end; iterations, calls and filters are therefore
counted, and what makes long texts or huge numbers is checked.
"""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Iterator, MutableMapping
from pathlib import Path
from typing import Any, NoReturn, cast

from jinja2 import BaseLoader, StrictUndefined, Template, TemplateNotFound, nodes
from jinja2.environment import Environment
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension
from jinja2.meta import find_undeclared_variables
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import SandboxedEnvironment
from jinja2.visitor import NodeTransformer

from einmap.errors import NotSupportedError, SpecError
from einmap.frontends.files import MAX_TEXT, read_text_file
from einmap.frontends.yaml.folders import Roots
from einmap.frontends.yaml.places import marked
from einmap.frontends.yaml.work import CALL_STEPS, FILE_STEPS, Work

MAX_LENGTH = 1_000_000
MAX_BITS = 10_000
MAX_FACTORIAL = 1_000


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_FILTERS = _words("""
    abs capitalize count d default dictsort first float groupby int items join last length list lower map
    max min reject rejectattr replace reverse round safe select selectattr sort string sum title trim
    unique upper
""")
_TEXT_METHODS = _words("""
    capitalize count endswith find index isalnum isalpha isdecimal isdigit isidentifier islower isnumeric
    isspace istitle isupper lower lstrip partition removeprefix removesuffix rfind rindex rpartition
    rsplit rstrip split splitlines startswith strip swapcase title upper
""")
_MATH = _words("""
    ceil copysign fabs floor fmod frexp fsum gcd isclose isfinite isinf isnan isqrt ldexp modf remainder trunc
    exp expm1 log log1p log2 log10 sqrt acos asin atan atan2 cos dist hypot sin tan degrees radians acosh
    asinh atanh cosh sinh tanh erf erfc gamma lgamma pi e tau inf nan
""")
_BUILTINS = (abs, round, sum, len, min, max, float, int, str, bool, list, tuple, enumerate)


class SandboxedTemplates(SandboxedEnvironment):
    """Renders one file of a specification; for one rendering. `name` is its path, empty where it has none.

    Lines of the file itself are marked in what it renders to, see `places`; `names` collects the
    variables that it mentions, those of included templates among them.
    """

    # Only these operators reach call_binop.
    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self, name: str, roots: Roots, work: Work) -> None:
        super().__init__(
            loader=_FolderLoader(roots, work),
            undefined=StrictUndefined,
            extensions=[_Assert],
            keep_trailing_newline=True,
        )
        self.names: set[str] = set()
        self._name = name
        self._work = work
        self.globals = {name: self.globals[name] for name in ("range", "namespace", "dict")} | _functions()
        self.filters = {name: self._charged(self.filters[name]) for name in _FILTERS}
        self.filters |= {"join": _join, "replace": _replace, "_counted": self._counted, "_short": _short}
        self.binop_table |= {"+": _add, "*": _multiply, "**": _power, "%": _modulo}

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        # not those that the file sets itself before it asks for them, nor functions
        self.names |= find_undeclared_variables(tree) - self.globals.keys()
        for loop in tree.find_all(nodes.For):
            if loop.recursive:
                raise SecurityError("recursive loops are not supported in templates")
            loop.iter = _filtered(loop.iter, "_counted")
        _LongTexts().visit(tree)
        if name == self._name:
            _LineMarks().visit(tree)
        return tree

    def _counted(self, values: Iterable[Any]) -> Iterator[Any]:
        for value in values:
            self._work.step()
            yield value

    def _charged(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def charged(*args: Any, **kwargs: Any) -> Any:
            self._work.step(1 + sum(map(_size, args)))
            return function(*args, **kwargs)

        return charged

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """As in Jinja2, but counted; the names leave all others to the keywords of the called."""
        __self._work.step(CALL_STEPS + _size(getattr(__obj, "__self__", None)) + sum(map(_size, args)))
        return super().call(__context, __obj, *args, **kwargs)

    def _load_template(self, name: str, globals: MutableMapping[str, Any] | None) -> Template:  # noqa: A002
        self._work.step()
        return super()._load_template(name, globals)

    def join_path(self, template: str, parent: str) -> str:
        """Paths are relative to the file that includes, as everywhere."""
        if not parent:
            raise SpecError("a specification that is not read from a file has no folder to include from")
        return os.path.normpath(Path(parent).parent / template)

    def wrap_str_format(self, value: Any) -> None:
        """No `str.format`, whose widths make endless text; `is_safe_attribute` refuses it too."""

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Also refuses what makes texts and lists grow faster than by steps."""
        if isinstance(obj, str):
            return attr in _TEXT_METHODS
        return attr != "extend" and super().is_safe_attribute(obj, attr, value)


class _Assert(Extension):
    """`{% assert COND, "message" %}` stops the loading with the message if COND is false."""

    tags = {"assert"}  # noqa: RUF012  (declared by Jinja2 as a plain class attribute)

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        has_message = parser.stream.skip_if("comma")
        message = parser.parse_expression() if has_message else nodes.Const("the assertion does not hold")
        failure = nodes.ExprStmt(self.call_method("fail", [message], lineno=line)).set_lineno(line)
        return nodes.If(nodes.Not(condition), [failure], [], []).set_lineno(line)

    def fail(self, message: object) -> None:
        """Called by the template when the condition is false."""
        raise SpecError(str(message))


class _LongTexts(NodeTransformer):
    """Wraps every `a ~ b`, which no operator table sees, so that its length is checked."""

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802  (the name is Jinja2's)
        return _filtered(self.generic_visit(node), "_short")


class _LineMarks(NodeTransformer):
    """Marks the lines of what the file itself writes; what goes through filters and macros stays as it is."""

    def visit_Output(self, node: nodes.Output) -> nodes.Node:  # noqa: N802
        parts: list[nodes.Expr] = []
        for part in node.nodes:
            if isinstance(part, nodes.TemplateData):
                parts.append(nodes.TemplateData(marked(part.data, part.lineno)))
            else:
                parts += [nodes.TemplateData(marked("", part.lineno)), part]
        node.nodes = parts
        return node

    def _unchanged(self, node: nodes.Node) -> nodes.Node:
        return node

    visit_Macro = visit_CallBlock = visit_FilterBlock = visit_AssignBlock = visit_Block = _unchanged  # noqa: N815


class _FolderLoader(BaseLoader):
    """Jinja2's `include` and `import`: only files below the roots, also through links."""

    def __init__(self, roots: Roots, work: Work) -> None:
        self._roots = roots
        self._work = work

    def get_source(
        self,
        environment: Environment,  # noqa: ARG002
        template: str,
    ) -> tuple[str, str, Callable[[], bool]]:
        self._work.step(FILE_STEPS)
        path = self._roots.check(Path(template), self._roots.shown(Path(template)))
        if not path.is_file():
            raise TemplateNotFound(self._roots.shown(path))
        return read_text_file(path), self._roots.shown(path), lambda: True


def _filtered(node: nodes.Node, name: str) -> nodes.Filter:
    wrapped = nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None)
    wrapped.set_lineno(node.lineno)
    wrapped.set_environment(cast(Environment, node.environment))
    return wrapped


def _functions() -> dict[str, Any]:
    """The functions and constants of expressions, those that grow fast with a limit."""
    functions = {name: getattr(math, name) for name in _MATH} | {f.__name__: f for f in _BUILTINS}
    limited = {f.__name__: _limited(f) for f in (math.factorial, math.comb, math.perm)}
    return functions | limited | {"pow": _power, "prod": _product, "setenv": _setenv}


def _setenv(*_args: object) -> NoReturn:
    hint = "give values to templates with -D NAME=VALUE or load(..., define={...})"
    raise NotSupportedError("setenv is not supported: a specification does not change the environment", hint=hint)


def _limited(function: Callable[..., int]) -> Callable[..., int]:
    @functools.wraps(function)
    def limited(*args: int) -> int:
        if any(arg > MAX_FACTORIAL for arg in args):
            raise SecurityError(f"{function.__name__} takes numbers up to {MAX_FACTORIAL}")
        return function(*args)

    return limited


def _size(value: object) -> int:
    """How much work a function may have with an argument."""
    if isinstance(value, str):
        return len(value) // 64
    return len(value) if isinstance(value, list | tuple | dict | set | range) else 0


def _short(value: Any) -> Any:
    if isinstance(value, str | list | tuple) and len(value) > MAX_LENGTH:
        raise SecurityError(f"a text or list in the template is longer than {MAX_LENGTH:,}")
    return value


def _check_bits(bits: float) -> None:
    if bits > MAX_BITS:
        raise SecurityError(f"a number in the template has more than {MAX_BITS:,} bits")


def _add(left: Any, right: Any) -> Any:
    return _short(left + right)


def _multiply(left: Any, right: Any) -> Any:
    if isinstance(left, int) and isinstance(right, int):
        _check_bits(left.bit_length() + right.bit_length())
    for text, times in ((left, right), (right, left)):
        if isinstance(text, str | list | tuple) and isinstance(times, int) and len(text) * times > MAX_LENGTH:
            raise SecurityError(f"a text or list in the template is longer than {MAX_LENGTH:,}")
    return left * right


def _power(base: Any, exponent: Any) -> Any:
    if isinstance(base, int) and isinstance(exponent, int):
        _check_bits(base.bit_length() * max(exponent, 0))
    return base**exponent


def _modulo(left: Any, right: Any) -> Any:
    if isinstance(left, str):
        raise SecurityError("% does not format text in templates; join texts with ~")
    return left % right


def _product(values: Iterable[Any]) -> Any:
    return functools.reduce(_multiply, values, 1)


def _join(values: Iterable[Any], separator: str = "", attribute: str | None = None) -> str:
    if attribute is not None:
        raise SecurityError("join takes no attribute; write map(attribute=...) before it")
    texts = [str(value) for value in values]
    if sum(map(len, texts)) + len(separator) * len(texts) > MAX_TEXT:
        raise SecurityError(f"a text in the template is longer than {MAX_TEXT:,}")
    return separator.join(texts)


def _replace(text: str, old: str, new: str) -> str:
    text, old, new = str(text), str(old), str(new)
    if len(text) + text.count(old) * len(new) > MAX_TEXT:
        raise SecurityError(f"a text in the template is longer than {MAX_TEXT:,}")
    return text.replace(old, new)
