"""Search strategies on the mapspace of one Einsum, judged against the proven optimum.

- `census`: how many mappings there are, and what valid ones cost.
- `experiment`: strategies side by side on one problem, with many seeds, in parallel processes.
- `journal`: finished runs in a file, so that an experiment that was killed goes on.
- `problem`: one Einsum on one architecture, an objective, and the evaluation of points.
- `remeasure`: the best mappings of a run judged anew by the simulator, or as C on this machine.
- `run`: one run of a strategy within a budget, and its history.
- `skislope`: the least traffic to and from main memory as a function of the capacity of a buffer.
- `strategies`: the strategies, one file each.
- `strategy`: the interface of strategies, and their names.
- `summary`: gaps to the optimum over all seeds, and how soon they are small.
- `space`: the mapspace with exact sizes, uniform draws, moves and vectors of numbers.
- `cost_model`: predictions of the objective from features of mappings.
"""
