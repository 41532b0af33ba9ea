"""Search strategies on the mapspace of one Einsum, judged against the proven optimum.

- `census`: how many mappings there are, and what valid ones cost.
- `cost_model`: gradient-boosted trees that predict the objective of a mapping.
- `experiment`: strategies side by side on one problem, with many seeds, in parallel processes.
- `features`: numbers of a mapping that mean the same for every workload on an architecture.
- `genome`: mappings as vectors of numbers, for samplers that know no others.
- `journal`: finished runs in a file, so that an experiment that was killed goes on.
- `model_file`: cost models in files, saved and loaded.
- `moves`: local moves between mappings.
- `problem`: one Einsum on one architecture, an objective, and the evaluation of points.
- `remeasure`: the best mappings of a run judged anew by the simulator, or as C on this machine.
- `run`: one run of a strategy within a budget, and its history.
- `skislope`: the least traffic to and from main memory as a function of the capacity of a buffer.
- `space`: the mapspace with exact sizes and uniform draws.
- `strategies`: the strategies, one file each.
- `strategy`: the interface of strategies, and their names.
- `summary`: gaps to the optimum over all seeds, and how soon they are small.
"""
