"""Einsums partitioned over the processing elements (PEs) of a mesh, and run there.

- `backends`: engines that run a plan.
- `choices`: the ways to spread one Einsum over a mesh.
- `costs`: what moves and local Einsums cost on a cluster, and a whole plan.
- `derive`: distribute_workload(): from a workload, a mesh and placements to a plan.
- `hops`: moves that lead from one placement of a tensor to another in one step.
- `placements`: how tensors and Einsums lie on a mesh of processing elements (PEs), and what a user asks for.
- `planner`: the best plan, why others lose, and what it is called.
- `plans`: what every PE does, step by step: plans, what they send, hold and compute.
- `read`: the key `distribution` of a specification as a plan.
- `rewrites`: plans whose steps run in turns.
- `search`: the exact search for a plan.
- `selection`: one strategy for each node of a graph, at least cost.
- `steps`: the steps of a plan in other forms: without names of buffers, as Einsums, as a file has them.
"""
