"""Expressions in a specification: our own safe evaluator over Python's syntax tree.

Read `sets` and `records` (values that expressions may hold), `scope` (names), `arithmetic` (what
the layers above call); then how it is done: `syntax`, `interpreter`, `operators`, `functions`, `budget`.

- `arithmetic`: evaluate the expressions of a specification.
- `names_seen`: the words in an expression, and whether it looks at names themselves or at their meanings.
- `quantities`: numbers that are written with a unit, and what to write instead.
- `records`: values with named attributes, and functions that expressions may call.
- `scope`: names that an expression may use, in layers: inner ones hide outer ones.
- `sets`: set expressions: sets of the tensors, or of the rank variables, of one Einsum.
- `evaluator`: evaluation of checked syntax trees, work and memory bounded.
"""
