"""The terminal reports of costs, and of what changes them.

- `cost_report`: the report for a terminal, in Rich: what limits latency, where energy goes, how full memories are.
- `difference_report`: the terminal report of `einmap diff`: what is different in structure, and what that does to
  the cost.
- `fusion`: what a mapping fuses, and what that saves, for a terminal.
- `pipelines`: what is told of Pipelines: which stage is the slowest, and how long it takes to fill and to drain.
- `provenance`: where the numbers of a result come from: each part of its energy with a line or a publication, and
  the models used.
- `rewrite_report`: what a change of the mapping does: energy, latency and space before and after.
- `rows`: the numbers of a cost, component by component, Einsum by Einsum; nothing here knows how they are shown.
- `tables`: those as tables of text, which terminal and HTML have in common.
- `zeros`: what is done, gated and skipped of each action, and what tiles take in their formats.
"""
