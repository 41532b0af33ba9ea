"""What moves and local Einsums cost on a cluster, and a whole plan.

- `cluster`: what a PE computes and holds, and the links along each axis of a mesh.
- `cost_model`: what moves and local Einsums cost: the parameter of every search for a plan.
- `cost`: what a plan sends and how long it takes.
- `mapped_pe`: what the Einsums of a workload cost on the architecture, remembered by shape.
- `pe_spec`: the architecture of a PE and a workload as one specification.
"""
