"""The schedule of visits: what a mapping does, worked out but not run; `execute` runs it, `emit` writes it as code.

- `routes`: what one Einsum does in a LoopTree: its loops, where its tensors are held, and its lanes.
- `boxes`: parts of a tensor: for each rank a range of indices.
- `spaces`: iteration spaces that are not boxes: which points are left out, and how far tiles reach.
- `place`: one tensor at one storage node, with everybody who uses it there.
- `copies`: where the values of a copy Einsum are and pass, and which buffers a copy makes one.
- `sliding`: which buffers keep, from one iteration of a loop to the next, what both need, and along which loop.
- `schedule`: the schedule of a mapping: who holds what where, from when to when.
"""
