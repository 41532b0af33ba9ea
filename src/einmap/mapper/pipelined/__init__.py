"""The search of Pipelines: successive Einsums as stages that work on successive tiles at one time.

- `placements`: which Computes and how many lanes each stage has: hardware of its own.
- `stage_fronts`: what one Einsum offers to the others: costs, busy times of what they have in common, and space.
- `stage_sums`: Pareto fronts of sums, with where each row comes from: Einsums of a stage, and parts of a cascade.
- `together`: chains of all Einsums of a Pipeline put together: what they cost, and whether they fit.
- `pipeline_search`: the best Pipelines of some successive Einsums, cut into stages.
- `given_stages`: which Pipelines of a given mapping are searched.
- `cascade_search`: the best way to cut a cascade into Pipelines and Einsums by themselves, and its tree.
"""
