"""Costs of moves and local Einsums on a cluster, and of a whole plan.

- `cluster`: a cluster: what a PE computes and holds, and the links along each axis of a mesh.
- `cost_model`: costs of moves and local Einsums: the parameter of every search for a plan.
- `cost`: bytes that a plan sends, and how long it takes.
- `magnitudes`: checks of numbers from which costs are summed.
- `mapped_pe`: costs of the Einsums of a workload on the architecture, remembered by shape.
- `pe_spec`: the architecture of a PE and a workload as one specification.
"""
