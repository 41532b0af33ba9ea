"""What templates know, by name; what Jinja2 has not, with its meaning."""

from __future__ import annotations

STATEMENTS = (
    "if", "for", "set", "with", "macro", "call", "filter", "block", "print", "raw", "include", "import", "from",
)  # fmt: skip
"""Statements of Jinja2."""
ASSERT = ('{% assert c, "message" %}', "nothing; where the condition is false, the loading ends with the message")
"""The statement that Jinja2 does not have."""
FILES = (
    ('include(path, keys="", inherit_parse_data=True, **variables)', "the value at the dotted keys of another file"),
    ('include_all(pattern, keys="", ...)', "the same of all files that match, as a list in the order of their names"),
    ("include_text(pattern, ...)", "the rendered text of the files that match"),
    ("find_path(pattern), find_paths(pattern)", "the first file that matches, or all"),
    ("path_exists(pattern)", "whether there is one"),
    ("add_to_path(pattern)", "adds folders in which these functions look"),
    ("cwd()", "the folder of the file"),
)
"""Functions for files."""
FILTERS = (
    "abs", "capitalize", "count", "d", "default", "dictsort", "first", "float", "groupby", "int", "items",
    "join", "last", "length", "list", "lower", "map", "max", "min", "reject", "rejectattr", "replace",
    "reverse", "round", "safe", "select", "selectattr", "sort", "string", "sum", "title", "trim", "unique",
    "upper",
)  # fmt: skip
"""Filters of Jinja2; `safe` is `string`, since nothing is escaped."""
TESTS = (
    "boolean", "callable", "defined", "divisibleby", "eq", "escaped", "even", "false", "filter", "float", "ge",
    "gt", "in", "integer", "iterable", "le", "lower", "lt", "mapping", "ne", "none", "number", "odd", "sameas",
    "sequence", "string", "test", "true", "undefined", "upper", "==", "equalto", "!=", ">", "greaterthan", ">=",
    "<", "lessthan", "<=",
)  # fmt: skip
"""Tests of Jinja2."""
ONLY_IN_TEMPLATES = ("dict", "namespace")
"""Functions that expressions do not have."""
LOOP = (
    "index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem", "cycle",
    "changed",
)  # fmt: skip
"""Parts of the variable `loop`."""
