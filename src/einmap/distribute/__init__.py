"""Einsums partitioned over the processing elements (PEs) of a mesh, and run there.

- `actions`: what a plan does, before its buffers have names: versions of a tensor are told by their placement
  alone.
- `backends`: engines that run a plan.
- `blocks`: in which blocks ranks and rank variables may be split.
- `check`: real data for a plan, and whether what an engine found is right.
- `checking`: how much of a result is checked, and checks of a sample of it.
- `choices`: the ways to spread one Einsum over a mesh.
- `cluster`: what a PE computes and holds, and the links along each axis of a mesh.
- `collectives`: what moves between PEs: the kinds of collectives, what each sends, and what a plan sends in all.
- `cost`: what a plan sends and how long it takes.
- `cost_model`: what moves and local Einsums cost: the parameter of every search for a plan.
- `derive`: distribute_workload(): from a workload, a mesh and placements to a plan.
- `hops`: moves that lead from one placement of a tensor to another in one step.
- `indices`: how a split rank variable splits the ranks that it indexes.
- `lifetimes`: memory of a PE over the steps of a plan.
- `mesh`: a mesh of processing elements (PEs) with named axes.
- `moves`: the cheapest way from one placement of a tensor to another.
- `naming`: actions of the search as a plan: buffers get names.
- `notation`: a plan as Einsums: what each PE computes and what it exchanges.
- `pe`: a PE with an architecture of its own, whose mapper costs Einsums.
- `placement`: which part of a tensor each PE holds.
- `plan`: a plan: what every PE of a mesh does, step by step, to compute a workload together.
- `planner`: the best plan, why others lose, and what it is called.
- `read`: the key `distribution` of a specification as a plan.
- `request`: what a user asks for: placements of tensors and loops of Einsums, checked against workload and mesh.
- `schedules`: plans whose steps run in turns.
- `search`: the exact search for a plan.
- `selection`: one strategy for each node of a graph, at least cost.
- `spaces`: iteration spaces that are not boxes: which points of a PE take part, and how many.
- `walk`: a Metropolis walk over plans, which proves nothing.
- `written`: the steps of a plan as a file has them.
"""
