"""Expressions in a specification: our own safe evaluator over Python's syntax tree.

Read `sets` and `records` (values that expressions may hold), `scope` (names), `arithmetic` (what
the layers above call); then how it is done: `syntax`, `interpreter`, `operators`, `functions`, `budget`.
"""
