"""A training step of a plan, run: stages of Einsums on devices, each of several PEs, micro-batches by a schedule.

- `plan_text`: a plan of a step that is run, as text.
- `program`: a training step as data: what each stage does in each action, and which tensors it sends.
- `stages`: stages spread over PEs as `train-plan` would do, and what that sends by its model.
- `shards`: parts of weights on devices that would have copies of them: ZeRO.
- `ending`: gradients summed, the update, weights gathered.
- `actions`: the part of a plan that each action of a stage runs.
- `device`: what a device of a pipeline holds and does.
- `run`: the actions of all devices in turn, what passes between them, and the end of the step.
- `on_jax`: the steps of a PE by JAX.
- `server`: what a process does for the engine on JAX.
"""
