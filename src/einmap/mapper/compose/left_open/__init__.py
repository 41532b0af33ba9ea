"""Choices that a call leaves to the search, each alternative of which is searched by itself.

- `best_layouts`: layouts that are left open: which one is best for each tensor in each memory, with the mapping that is
  best for it.
- `best_formats`: formats of sparse tensors that are left open, each combination by itself.
- `best_rewrites`: changes of the cascade that a search may choose: a softmax over keys in blocks, or as it is written.
"""
