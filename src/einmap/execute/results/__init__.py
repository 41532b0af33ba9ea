"""Results of an execution.

- `occupancy`: which buffers live while a mapping runs, and how full memories are.
- `result`: what an execution leaves behind: tensors, counts, occupancy over time.
- `timeline`: what an execution does in the order of time: visits of the innermost loops, joined until they fit a limit.
"""
