"""Parts of a specification between their raw form and values.

- `chosen_formats`: formats of sparse tensors that were chosen where they are left open: in the specification, and for a
  mapping made for them.
- `chosen_layouts`: layouts that were chosen where the architecture leaves them open, in the same places.
- `loop_tree`: the LoopTree between its raw form and its nodes: read, check the shape, write.
- `partial_tree`: a partly given mapping from its raw form: per Einsum nodes in order, with `!Any {}` where nodes
  may be inserted.
- `rewritten`: changes of the cascade that a mapping is made for.
- `spec_difference`: fields in which two specifications differ, with their paths.
- `write_workload`: a frozen workload -> the key `workload` of a specification that means the same.
"""
