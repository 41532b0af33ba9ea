"""Run a mapping on real tensors and count what moves; knows nothing of the analytical model.

- `copying`: copy Einsums: each value is read once at the source and written once at every destination elsewhere.
- `exchanges`: exchanges between a buffer and the next holder outward: fills and write-backs, value by value.
- `execute`: execute(): run a mapping on real tensors through explicit buffers, and count what moves.
- `leaf`: one visit of everything below the last storage node of an Einsum: set up the kernel, run it, count.
- `lines`: lines of a memory that a tile touches, found from the addresses of its values one by one.
- `networks`: values on their way over networks, and where they begin it.
- `recorder`: counts and steps while a mapping runs.
- `simulator`: the simulator: walks the LoopTree in time, opens and closes visits, moves tiles between buffers.
- `stages`: runs a Pipeline turn by turn: every stage works on a tile of its own, on the visits of that tile.
- `kernel`: the compiled inner loops of the simulator.
- `results`: what an execution leaves behind.
- `zeros`: zeros while a mapping runs: what is gated and skipped of each read, write and operation.
- `tiles`: buffers and the tiles that are in them.
"""
