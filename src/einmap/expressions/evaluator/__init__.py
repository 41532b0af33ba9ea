"""Evaluation of checked syntax trees, work and memory bounded.

- `budget`: how much work one expression may do, counted in steps and sizes, never in seconds.
- `custom`: functions that users give: called with plain values only.
- `functions`: the functions and constants that every expression may use.
- `interpreter`: evaluate a checked syntax tree: one method for each kind of node.
- `operators`: the operators of expressions: Python's own, with a bound on what they may build.
- `syntax`: text to syntax tree: Python's grammar, and of it only what an expression may use.
"""
