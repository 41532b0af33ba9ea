"""Sections that several pages have, each made from results of the model or the mapper.

- `drawings`: LoopTree, workload and architecture.
- `energy`: energy by component, tensor and Einsum.
- `explained`: what one change would help, reuse at every storage node.
- `front`: the Pareto front, and the mapping that is chosen in it.
- `fusion`: what a mapping fuses, and what that saves.
- `inputs`: the merged specification, and where costs come from.
- `latency`: time by component and Einsum, with what limits.
- `occupancy`: what is in each memory while the Einsums run.
- `roofline`: each Einsum as a point below the roofs of computes and memories.
- `search`: what a search did.
- `summary`: the numbers that come first.
"""
