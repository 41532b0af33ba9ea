"""One strategy for each node of a graph, at least cost: sums over nodes and edges, with limits on what is used.

The problem of every planner that places tensors: Alpa, XLA's solver and the IOPDDL contest state theirs so.

- `elimination`: exact where the graph is narrow: one node after another is minimised out.
- `integer`: exact by an integer program, with limits; needs highspy.
- `kernels`: compiled loops of `messages` and `local_search`.
- `least_excess`: the least excess over limits, where nothing else costs anything.
- `local_search`: better choices by small changes.
- `messages`: bounds and choices by messages along the edges, however wide the graph.
- `problem`: nodes, edges, limits, and what a choice costs.
- `reduction`: without strategies that cannot or need not be chosen.
- `solve`: the solver for a problem: elimination where it suffices, else the integer program.
- `wide`: problems that are too large for an integer program at once.
- `windows`: better choices by exact searches of parts.
"""
