"""The commands for meshes of processing elements.

- `pipeline`: `einmap pipeline`: schedules of a pipeline over devices, compared, searched, drawn.
- `plan`: `einmap plan`: choose how a workload is distributed over a mesh.
- `plan_files`: the files that `einmap plan` writes beside its report: the plan, pictures, a trace, a page.
- `plan_options`: its options as values, checked together.
- `run`: `einmap run`: distribute real data over a mesh, run, and check.
- `ranks`: ranks of samples, positions and experts, as options say them
- `run_training`: a pipelined training step on real data, held against the unpartitioned step.
- `shipped`: shipped distributions with turns that do as well as a plan in turns.
- `tokens`: `einmap tokens`: what tokens of a language model cost on a machine.
- `train_plan`: `einmap train-plan`: choose how devices are divided for a step of training.
"""
