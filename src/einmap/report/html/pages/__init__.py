"""The pages of commands, each made of sections.

- `cost_page`: pages of one mapping and its cost: `evaluate`, `map`, `explain`.
- `distribution_page`: the page of `einmap run`.
- `matmul_page`: the page of `einmap plan-matmul`.
- `plan_page`: the page of `einmap plan`.
- `search_pages`: the pages of `einmap search`, `einmap census` and `einmap skislope`.
- `sweep_page`: the page of `einmap sweep`.
- `tokens_page`: the page of `einmap tokens`.
- `training_page`: a plan of a training step.
"""
