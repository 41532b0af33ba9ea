"""Templates: Jinja2's syntax, evaluated by an interpreter of our own.

Jinja2 only parses. Nothing becomes Python code, and a template holds values of the kinds in `values` alone; what
is not listed here does not exist for it. Read `values`, `tools` (work, texts, sizes), `operators`,
`methods`, `filters`, `tests` and `functions` (what there is), then `expressions`, `statements` and `parse`.

- `asked`: which variables a template asks for: those that it reads where it has not set them itself.
- `expressions`: evaluates the expressions of a template: one method for each kind of node.
- `filters`: the filters of templates: `value | name(...)`.
- `functions`: the functions and constants that every template may use: those of expressions, as opaque values.
- `attributes`: fields and methods of values: those listed here, and no others.
- `operators`: the operators of templates: Python's own on plain values, paid by the size of what they take and
  make.
- `page`: where templates write: a page that remembers the lines of the file, and captures for parts of it.
- `parse`: template text to Jinja2's syntax tree, with the statement `assert`.
- `rendering`: renders one file of a specification, with the templates that it includes and imports.
- `scope`: the names that a place in a template sees: layers, inner ones first.
- `statements`: runs the statements of a template: one method for each kind of node.
- `surroundings`: what a template sees beside its variables.
- `tests`: the tests of templates: `value is name(...)`.
- `tools`: what all parts of the interpreter share: how work is counted, and values as texts, elements and keys.
- `values`: what a template may hold: plain values of Python, and a few opaque kinds of ours.
"""
