"""Rewrites: from one mapping to another one that computes the same values.

Each function takes a mapping that `mapping.validate` accepts and returns a new one, or raises MappingError with the
place and the reason. They know the workload and the tree; what depends on the hardware (capacities, fanouts, the
hierarchy, lanes that would cross a loop of the same variable) is checked when the result is evaluated.

Read `loops`, `storage`, `branches`, then `text`, the form of the command line; below them `values`, what may not be
broken, `places`, how nodes are named, and `editing`.
"""
