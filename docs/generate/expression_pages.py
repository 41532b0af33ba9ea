"""The reference pages of expressions, of templates, and of the functions of Einsums."""

from __future__ import annotations

from collections.abc import Iterable

from docs.generate import expression_texts as texts
from docs.generate import template_texts as templates
from docs.generate.layout import code, listed, page, paragraph, table

from einmap.einsum.functions import FUNCTIONS, MapFunction
from einmap.einsum.operation import REDUCTIONS
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope


def value_of(expression: str) -> str:
    """What an expression gives, as a reader would write it."""
    value = evaluate(expression, Scope())
    return {True: "true", False: "false", None: "none"}.get(value, repr(value)) if _is_word(value) else repr(value)


def _is_word(value: object) -> bool:
    return value is None or isinstance(value, bool)


def words(names: Iterable[str]) -> str:
    """Names as one piece of code, bars between them left out of tables."""
    return code(" ".join(names))


def expressions() -> str:
    """Functions, operators, keywords and sets, and all that templates know."""
    forms = [
        (f"{code(form)}: {meaning}", f"{code(example)} is {code(value_of(example))}")
        for form, meaning, example in (*texts.OPERATORS, *texts.KEYWORDS)
    ]
    functions = [
        (f"{code(f'{name}({arguments})')}: {meaning}", f"{code(example)} is {code(value_of(example))}")
        for name, (arguments, meaning, example) in texts.FUNCTIONS.items()
    ]
    return page(
        "Expressions and templates",
        paragraph("An expression is computed when a specification is bound, and knows its names; a template is "
                  "rendered before, when the file is read, and knows no names but those given with `-D`. [Expressions]"
                  "(../expressions.md) tells where they may stand and in which order names are looked up, "
                  "[input-files.md](../input-files.md#templates) how templates work. The grammar of expressions is "
                  "Python's; their work and memory are bounded."),
        "## Operators and forms",
        listed("; ", forms),
        paragraph(f"Refused: {texts.REFUSED}."),
        "## Functions",
        paragraph(f"Constants: {words(texts.CONSTANTS)}. As in Python and its module `math`: "
                  f"{words(texts.AS_IN_PYTHON)}. A name of the specification, or a function of your own, goes before "
                  "a function of the same name. Beside them:"),
        listed("; ", functions),
        "## Sets",
        paragraph("A set selects tensors, or rank variables, of one Einsum. `&`, `|`, `-`, `^`, `~`, `in` and `len` "
                  "work on sets; two sets must be of one kind."),
        listed(": ", [(code(n), m) for n, m in (*texts.SETS.items(), *texts.OTHER_SETS)]),
        "Parts of a set `s`:",
        listed(": ", [(code(f"s.{n}"), m) for n, m in texts.SET_PARTS.items()]),
        "## What components say",
        "In expressions of `arch`:",
        listed(": ", [(code(n), m) for n, m in texts.COMPONENT_PARTS]),
        "In `total_latency`:",
        listed(": ", [(code(n), m) for n, m in texts.LATENCY_NAMES]),
        *template_parts(),
    )  # fmt: skip


def template_parts() -> list[str]:
    """The section on templates."""
    return [
        "## Templates",
        paragraph("As in [Jinja2](https://jinja.palletsprojects.com/en/stable/templates/), and nothing else of it:"),
        listed(": ", [
            ("statements", words(templates.STATEMENTS)),
            ("filters", f"{words(templates.FILTERS)}; `safe` is `string`, since nothing is escaped"),
            ("tests", words(templates.TESTS)),
            ("parts of `loop`", words(templates.LOOP)),
            ("functions", f"{words(templates.ONLY_IN_TEMPLATES)}, and all functions and constants above but `map` "
                          "(a filter here) and `getcwd`"),
        ]),
        "Only here:",
        listed(": ", [(code(n), m) for n, m in (templates.ASSERT, *templates.FILES)]),
    ]  # fmt: skip


def map_functions() -> str:
    """The functions of map expressions."""
    rows = [
        (code(_written(entry)), entry.meaning, "yes" if entry.exact_on_integers else "no")
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
                  "integer, so that sums are the same in any order."),
        table(("written", "value", "exact"), rows),
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
