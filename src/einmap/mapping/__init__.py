"""LoopTree: the nodes of a mapping, the tree, its validation and its text.

Read `nodes`, `mapping`, `template`, `pretty`, `validate`, then the package `rewrite`.
"""
