"""Run a mapping on real tensors and count what moves; knows nothing of the analytical model.

- `buffers`: explicit buffers: one tile of one tensor in one instance of a memory.
- `copying`: copy Einsums: each value is read once at the source and written once at every destination elsewhere.
- `exchanges`: exchanges between a buffer and the next holder outward: fills and write-backs, value by value.
- `execute`: execute(): run a mapping on real tensors through explicit buffers, and count what moves.
- `kernel`: the inner loops: everything below the last storage node of an Einsum, for one visit.
- `kernels`: the kernel as Numba compiles it.
- `leaf`: one visit of everything below the last storage node of an Einsum: set up the kernel, run it, count.
- `lines`: lines of a memory that a tile touches, found from the addresses of its values one by one.
- `networks`: values on their way over networks, and where they begin it.
- `occupancy`: which buffers live while a mapping runs, and how full memories are.
- `padding`: elements of intermediate tensors that no Einsum writes, though some read them: zeros around what is
  computed.
- `recorder`: counts and steps while a mapping runs.
- `result`: what an execution leaves behind: tensors, counts, occupancy over time.
- `simulator`: the simulator: walks the LoopTree in time, opens and closes visits, moves tiles between buffers.
- `sliding`: sliding windows: buffers that keep, from one iteration of a loop to the next, what both need.
- `stages`: runs a Pipeline turn by turn: every stage works on a tile of its own, on the visits of that tile.
- `timeline`: what an execution does in the order of time: visits of the innermost loops, joined until they fit a limit.
- `visits`: visits of storage nodes: the tiles that are there now.
- `warm`: a first call of the simulator's kernel, so that it can be compiled ahead.
"""
