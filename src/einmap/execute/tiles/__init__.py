"""Buffers and the tiles that are in them.

- `buffers`: explicit buffers: one tile of one tensor in one instance of a memory.
- `padding`: elements of intermediate tensors that no Einsum writes, though some read them: zeros around what is
  computed.
- `sliding`: sliding windows: buffers that keep, from one iteration of a loop to the next, what both need.
- `visits`: visits of storage nodes: the tiles that are there now.
"""
