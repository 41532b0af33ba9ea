"""Hardware as values bound for one Einsum: components, constraints, and the tree that holds them.

Read `constraint`, then `component`, then `tree`.
"""
