"""Expressions in a specification: our own safe evaluator over Python's syntax tree.

Read `sets` and `records` (values that expressions may hold), `scope` (names), `arithmetic` (what
the layers above call); then how it is done: `syntax`, `interpreter`, `operators`, `functions`, `budget`.

- `arithmetic`: evaluate the expressions of a specification.
- `budget`: how much work one expression may do, counted in steps and sizes, never in seconds.
- `custom`: functions that users give: called with plain values only.
- `functions`: the functions and constants that every expression may use.
- `interpreter`: evaluate a checked syntax tree: one method for each kind of node.
- `names_seen`: the words in an expression, and whether it looks at names themselves or at their meanings.
- `operators`: the operators of expressions: Python's own, with a bound on what they may build.
- `quantities`: numbers that are written with a unit, and what to write instead.
- `records`: values with named attributes, and functions that expressions may call.
- `scope`: names that an expression may use, in layers: inner ones hide outer ones.
- `sets`: set expressions: sets of the tensors, or of the rank variables, of one Einsum.
- `syntax`: text to syntax tree: Python's grammar, and of it only what an expression may use.
"""
