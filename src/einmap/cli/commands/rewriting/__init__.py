"""The commands that change a mapping or a workload step by step.

- `gradient`: `einmap gradient`: the backward pass of a workload, as Einsums.
- `partition`: `einmap partition`: split, flatten and linearise ranks, delay reductions, and print what the workload
  becomes.
- `rewrite`: `einmap rewrite`: change a mapping step by step, each step keeping what it computes.
"""
