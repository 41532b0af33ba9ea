"""The search of Pipelines: successive Einsums as stages that work on successive tiles at one time.

- `placements`: which Computes and how many lanes each stage has: hardware of its own.
- `stage_fronts`: what one stage offers to the others: costs, busy times of what they have in common, and space.
- `stage_sums`: Pareto fronts of the sums that the parts of a cascade come to, with where each row comes from.
- `pipeline_search`: the best Pipelines of some successive Einsums.
- `refusals`: what the search of Pipelines does not know, refused by name.
- `cascade_search`: the best way to cut a cascade into Pipelines and Einsums by themselves, and its tree.
"""
