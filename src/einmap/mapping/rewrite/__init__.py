"""Rewrites: from one mapping to another one that computes the same values.

Each function takes a mapping that `mapping.validate` accepts and returns a new one, or raises MappingError with the
place and the reason. They know the workload and the tree; what depends on the hardware (capacities, fanouts, the
hierarchy, lanes that would cross a loop of the same variable) is checked when the result is evaluated.

Read `loops`, `tiles`, `storage`, `branches`, `stages`, then `text`, the form of the command line; below them `values`,
what may not be broken, `places`, how nodes are named, and `editing`.

- `branches`: rewrites of splits: loops that several branches begin with, written once above the split, and back.
- `editing`: editing a LoopTree: nodes in and out of its lists, by address.
- `loops`: rewrites of loops: in which order, in how many steps, and whether in time or on lanes values are visited.
- `places`: pointing into a mapping: addresses, and names where they are unambiguous.
- `stages`: rewrites of splits as a whole: branches that form a branch of their own, and branches that work at one time.
- `storage`: rewrites of storage nodes: where in the LoopTree a memory holds a tensor, and whether it does.
- `text`: a rewrite written as one line: `sink A@GLB below m`.
- `tiles`: rewrites of the tiles of a loop: their shape, and that of the first one.
- `values`: checks that every Einsum reads, after a rewrite, the values that it read before.
"""
