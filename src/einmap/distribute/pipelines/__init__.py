"""Schedules of a pipeline: which stage of a model a device runs when, micro-batch by micro-batch.

- `exact`: branch and bound over all orders of a small pipeline.
- `greedy`: orders by rules of priority, made while the pipeline runs.
- `problem`: a pipeline to be scheduled, and the time that no schedule goes below.
- `quick`: ends and peaks of a schedule for many costs.
- `refine`: simulated annealing of a schedule.
- `rounds`: orders made in rounds, for one stage a device.
- `schedule`: a schedule as data: the actions of each device, in order.
- `search`: best_pipeline(): the best schedule for given costs and memory.
- `shipped`: pipeline_schedule(): the schedules that have names.
- `table`: schedules as CSV, one row a device and one cell an action, as PyTorch writes them.
- `timeline`: run_pipeline(): when each action runs, what is idle, and how many activations are held.
"""
