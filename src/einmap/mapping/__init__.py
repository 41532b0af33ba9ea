"""LoopTree: the nodes of a mapping, the tree, its validation and its text.

Read `nodes`, `mapping`, `template`, `pretty`, `validate`, then the package `rewrite`.

- `difference`: how one LoopTree differs from another: nodes added, removed, moved, and loops with other tile
  shapes.
- `mapping`: mapping: a complete LoopTree, the path above a node, the part of one Einsum.
- `met_loops`: the loops of one Einsum, each with the extent that it meets.
- `nodes`: the nodes of a LoopTree.
- `pipelines`: pipelines of a LoopTree: their stages, which wait for which, and whether they stand on hardware of
  their own.
- `pretty`: a LoopTree as an indented loop nest.
- `recurrences`: what a LoopTree must be for a recurrence (definition 15): one step after the other, and each step as a
  whole.
- `renamed`: a mapping of one Einsum, as it is for another one that is the same but for names.
- `rewrite`: rewrites: from one mapping to another one that computes the same values.
- `template`: mappings that are not complete, as types of their own: templates and partial mappings.
- `validate`: the mapping fits workload and architecture, or a MappingError says where and why not.
"""
