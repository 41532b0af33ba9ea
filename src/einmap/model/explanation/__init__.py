"""Why a mapping costs what it does: every number of an evaluation with what it is made of.

Read `values`, then `cases`, `counts`, `lifetimes`, `bottlenecks`, `changes`, and `explain`, which brings them together.
"""
