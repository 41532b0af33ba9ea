"""Reports of plans over a mesh.

- `collectives`: what a plan predicted, what its program executes and what its compiler made of it, side by side.
- `pipelines`: the terminal report and the JSON document of `einmap pipeline`.
- `pipeline_trace`: the timeline of a pipeline as a trace.
- `pictures`: pictures of plans as SVG text: who holds what, and when each step runs.
- `planned`: the terminal report of `einmap plan`: what was chosen, what it costs, and why other plans lose.
- `steps`: the steps of a plan as reports show them: what each does, when it runs, what it sends and what is held.
- `training`: the terminal report and the JSON document of `einmap train-plan`.
- `training_words`: why a plan of a training step wins, and what one change of it would cost.
- `trace`: the timeline of a plan as a file in the Trace Event format.
- `distribution`: the terminal report of `einmap run`: the partitioned Einsums, what they exchange, and whether
  results are right.
"""
