"""Plans, step by step for every PE: what they send, hold and compute.

- `collectives`: collectives between PEs: their kinds, what each sends, and what a plan sends in all.
- `cuts`: the linear inequalities of an Einsum, in groups that speak of the same rank variables.
- `lifetimes`: memory of a PE over the steps of a plan.
- `masks`: masks of the points of a PE that lie in the space.
- `plan`: a plan: what every PE of a mesh does, step by step, to compute a workload together.
- `points`: how many points the busiest PE evaluates, and a PE on average.
"""
