"""Einsums partitioned over the processing elements (PEs) of a mesh, and run there.

- `backends`: engines that run a plan.
- `choices`: the ways to spread one Einsum over a mesh.
- `costs`: costs of moves and local Einsums on a cluster, and of a whole plan.
- `derive`: distribute_workload(): from a workload, a mesh and placements to a plan.
- `hops`: moves that lead from one placement of a tensor to another in one step.
- `operators`: seconds of the operators of a step of a model, as serving runs them.
- `pipelines`: schedules of a pipeline: which stage of a model a device runs when.
- `placements`: how tensors and Einsums lie on a mesh of processing elements (PEs), and what a user asks for.
- `planner`: the best plan, why others lose, and what it is called.
- `plans`: plans, step by step for every PE: what they send, hold and compute.
- `read`: the key `distribution` of a specification as a plan.
- `rewrites`: plans whose steps run in turns.
- `search`: the exact search for a plan.
- `selection`: one strategy for each node of a graph, at least cost.
- `steps`: the steps of a plan in other forms: without names of buffers, as Einsums, as a file has them.
- `training`: plans of training steps: how devices are divided, what that costs.
- `training_run`: a pipelined training step, run: stages on devices, micro-batches by a schedule, gradients, an update.
"""
