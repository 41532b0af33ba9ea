"""Templates: Jinja2's syntax, evaluated by an interpreter of our own.

Jinja2 only parses. Nothing becomes Python code, and a template holds values of the kinds in `values` alone; what
is not listed here does not exist for it. Read `values`, `tools` (work, texts, sizes), `operators`,
`methods`, `filters`, `tests` and `functions` (what there is), then `expressions`, `statements` and `parse`.
"""
