"""The reference pages of expressions, of templates, and of the functions of Einsums."""

from __future__ import annotations

from docs.generate import expression_texts as texts
from docs.generate import template_texts as templates
from docs.generate.layout import code, page, paragraph, table

from einmap import loads
from einmap.einsum.functions import FUNCTIONS, MapFunction
from einmap.einsum.operation import REDUCTIONS
from einmap.emit.printers import c_runtime, print_python
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope


def value_of(expression: str) -> str:
    """What an expression gives, as a reader would write it."""
    value = evaluate(expression, Scope())
    return {True: "true", False: "false", None: "none"}.get(value, repr(value)) if _is_word(value) else repr(value)


def _is_word(value: object) -> bool:
    return value is None or isinstance(value, bool)


def rendered(expression: str) -> str:
    """What `{{ expression }}` is in a template."""
    return written(f"{{{{ {expression} }}}}")


def written(template: str) -> str:
    """What a template writes."""
    return str(loads(f"variables:\n  x: |-\n    {template}\n").get("variables.x"))


def expressions() -> str:
    """Functions, operators, keywords and sets, and all that templates know."""
    functions = [
        part
        for heading, entries in texts.FUNCTIONS.items()
        for part in (
            f"### {heading}",
            table(
                ("function", "value", "example"),
                [
                    (code(f"{name}({arguments})"), meaning, f"{code(example)} is {code(value_of(example))}")
                    for name, (arguments, meaning, example) in entries.items()
                ],
            ),
        )
    ]  # fmt: skip
    return page(
        "Expressions and templates",
        paragraph("An expression is computed when a specification is bound, and knows its names; a template is "
                  "rendered "
                  "before, when the file is read, and knows no names but those given with `-D`. [Expressions]"
                  "(../expressions.md) tells where they may stand and in which order names are looked up, "
                  "[input-files.md](../input-files.md#templates) how templates work. The grammar of expressions is "
                  "Python's; their work and memory are bounded. All values here were computed by einmap."),
        "## Operators",
        table(("operator", "value", "example"),
              [(code(o), meaning, f"{code(e)} is {code(value_of(e))}") for o, meaning, e in texts.OPERATORS]),
        "## Keywords and forms",
        table(("form", "value", "example"),
              [(code(o), meaning, f"{code(e)} is {code(value_of(e))}") for o, meaning, e in texts.KEYWORDS]),
        paragraph(f"Refused: {texts.REFUSED}."),
        "## Constants",
        table(("name", "value"), [(code(name), meaning) for name, meaning in texts.CONSTANTS.items()]),
        "## Functions",
        paragraph("Most are those of Python's `math`. A name of the specification, or a function of your own, goes "
                  "before "
                  "a function of the same name."),
        *functions,
        "## Sets",
        paragraph("A set selects tensors, or rank variables, of one Einsum. `&`, `|`, `-`, `^`, `~`, `in` and `len` "
                  "work on sets; two sets must be of one kind."),
        table(("name", "what is in it"),
              [*((code(n), m) for n, m in texts.SETS.items()), *((code(n), m) for n, m in texts.OTHER_SETS)]),
        table(("part of a set", "what it is"), [(code(f"s.{n}"), m) for n, m in texts.SET_PARTS.items()]),
        "## What components say",
        table(("in expressions of `arch`", "value"), [(code(n), m) for n, m in texts.COMPONENT_PARTS]),
        table(("in `total_latency`", "value"), [(code(n), m) for n, m in texts.LATENCY_NAMES]),
        *template_parts(),
    )  # fmt: skip


def template_parts() -> list[str]:
    """The sections on templates."""
    tests = [
        (code(name), meaning, f"{code(example)}: {rendered(example).lower()}")
        for name, (meaning, example) in templates.TESTS.items()
    ]
    only = [
        (code(name), meaning, f"{code(example)} is {code(rendered(example))}")
        for name, (meaning, example) in templates.ONLY_IN_TEMPLATES.items()
    ]
    return [
        "## Templates: statements",
        table(
            ("statement", "what it writes", "example"),
            [(code(n), m, f"{code(e)} writes {code(written(e))}" if e else "") for n, m, e in templates.STATEMENTS],
        ),
        "## Templates: functions",
        paragraph("All functions and constants above but `map` (a filter here) and `getcwd` are known in templates, "
                  "too. "
                  "Beside them:"),
        table(("function", "value", "example"), only),
        table(("function for files", "value"), [(code(n), m) for n, m in templates.FILES]),
        "## Templates: filters",
        table(("filter", "value", "example"),
              [(code(name), meaning, f"{code(example)} is {code(rendered(example))}")
               for name, (meaning, example) in templates.FILTERS.items()]),
        "## Templates: tests",
        table(("test", "whether it is", "example"), tests),
        "## Templates: the variable `loop`",
        table(("name", "value"), [(code(f"loop.{name}"), meaning) for name, meaning in templates.LOOP.items()]),
    ]  # fmt: skip


def map_functions() -> str:
    """The functions of map expressions."""
    rows = [
        (
            code(_written(entry)),
            entry.meaning,
            "yes" if entry.exact_on_integers else "no",
            code(_spelt(entry, print_python.FUNCTIONS)),
            code(_spelt(entry, c_runtime.FUNCTIONS)),
        )
        for entry in FUNCTIONS.values()
    ]
    return page(
        "Map functions: what Einsums compute",
        paragraph("The right side of an Einsum string, or the field `operation`, is a map expression: numbers, "
                  "tensors, "
                  "`+ - * / **`, brackets, and these functions. It is computed at every point of the iteration space, "
                  "and values for the same place of the output are reduced (`sum` unless `reduction` says `max` or "
                  "`min`). It decides what the simulator, emitted code and plans on a mesh compute. It does not change "
                  "what a mapping costs: each point is one `compute`. Text that is not such an expression is allowed, "
                  "and refused only where it would have to run."),
        paragraph("Values are floating-point numbers by the rules of IEEE 754 (1/0 is inf). *Exact*: integers give an "
                  "integer, so that sums are the same in any order. The last columns are what `einmap emit` writes, "
                  "with "
                  "`import numpy as np` and `math.h`."),
        table(("written", "value", "exact", "in Python", "in C"), rows),
        "## Reductions",
        table(("reduction", "value"), [(code(name), texts.REDUCTIONS[name]) for name in REDUCTIONS]),
    )  # fmt: skip


def _written(entry: MapFunction) -> str:
    """As the user writes it."""
    infix = {"power": "**"}.get(entry.name, entry.infix)
    if entry.name == "negative":
        return "-x, negative(x)"
    call = f"{entry.name}({', '.join('xyz'[: entry.arity])})"
    return f"x {infix} y, {call}" if infix else call


def _spelt(entry: MapFunction, spellings: dict[str, str]) -> str:
    if entry.infix:
        return f"x {entry.infix} y"
    return spellings[entry.name].format(*"xyz"[: entry.arity])
