"""Template text to Jinja2's syntax tree, with the statement `assert`; no more of Jinja2 is used."""

from __future__ import annotations

import re

from jinja2 import Environment, TemplateSyntaxError, nodes
from jinja2.ext import Extension
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser

from einmap.errors import At, SpecError
from einmap.frontends.yaml.parsing.work import Work

_TOKEN_STEPS = 6
_TOO_LONG = re.compile(r"[0-9a-fA-F_]{10000}")
_MAX_ESCAPES = 100_000
"""Backslashes of a template: to read them takes memory."""
_SHOWN = 300


class _Assert(Extension):
    """`{% assert COND, "message" %}` stops the loading with the message if COND is false."""

    tags = {"assert"}  # noqa: RUF012  (declared by Jinja2 as a plain class attribute)
    work: Work

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        condition = parser.parse_expression()
        has_message = parser.stream.skip_if("comma")
        message = parser.parse_expression() if has_message else nodes.Const("the assertion does not hold")
        failure = nodes.ExprStmt(self.call_method("fail", [message], lineno=line)).set_lineno(line)
        return nodes.If(nodes.Not(condition), [failure], [], []).set_lineno(line)

    def filter_stream(self, stream: TokenStream) -> list[Token]:
        """Every token is work, and memory. All are read before the first is parsed, which may nest deeply."""
        tokens = []
        for token in stream:
            self.work.step(_TOKEN_STEPS)
            tokens.append(token)
        return tokens


ASSERT = _Assert.identifier
"""Identifies the call that stands for a failed `assert`."""


def parse(text: str, file: str, work: Work) -> nodes.Template:
    """The syntax tree of a template. Raises SpecError with its line, also when it is too long."""
    if _TOO_LONG.search(text) or text.count("\\") > _MAX_ESCAPES:
        raise SpecError("not a valid template: it has a number, or escapes, without end", at=At(file, 1))
    environment = Environment(extensions=[_Assert], keep_trailing_newline=True)
    extension = environment.extensions[ASSERT]
    assert isinstance(extension, _Assert)
    extension.work = work
    try:
        return environment.parse(text)
    except TemplateSyntaxError as error:
        raise SpecError(f"not a valid template: {(error.message or '')[:_SHOWN]}", at=At(file, error.lineno)) from None
    except RecursionError:
        raise SpecError("not a valid template: it is nested too deeply", at=At(file, 1)) from None
    except ValueError as error:  # a number of too many digits
        raise SpecError(f"not a valid template: {str(error)[:_SHOWN]}", at=At(file, 1)) from None
    except SpecError as error:
        error.at = error.at or At(file, 1)
        raise
