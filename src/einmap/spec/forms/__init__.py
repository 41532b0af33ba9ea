"""Parts of a specification between their raw form and values.

- `loop_tree`: the LoopTree between its raw form and its nodes: read, check the shape, write.
- `partial_tree`: a partly given mapping from its raw form: per Einsum nodes in order, with `!Any {}` where nodes
  may be inserted.
- `rewritten`: changes of the cascade that a mapping is made for.
- `spec_difference`: fields in which two specifications differ, with their paths.
- `write_workload`: a frozen workload -> the key `workload` of a specification that means the same.
"""
