"""Objectives and metrics of mappings.

- `metrics`: what a mapping can be judged by: one entry for each metric.
- `objectives`: objectives as the kernels know them, and the columns of cost that they need.
- `objective_kernels`: compiled formulas on values of the objectives: what costs are worth, and which values are of
  no use.
- `pareto_archive`: the best points that a search has found.
- `pareto_sums`: the best sums over Einsums: one mapping of each, objectives added up.
- `tolerances`: when two costs count as equal, and which of equally good mappings is wanted.
"""
