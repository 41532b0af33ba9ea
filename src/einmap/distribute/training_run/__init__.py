"""A pipelined training step, run: stages of Einsums on devices, micro-batches by a schedule, gradients and an update.

- `plan_text`: a plan of a step that is run, as text.
- `program`: a training step as data: what each stage does in each action, and which tensors it sends.
- `device`: what a device of a pipeline holds and does.
- `run`: the actions of all devices in turn, what passes between them, sums of gradients, and the update.
- `on_jax`: an Einsum evaluated by JAX.
- `server`: what a process does for the engine on JAX.
"""
