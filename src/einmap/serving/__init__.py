"""Costs of a language model on a machine: seconds, energy and memory for each token, batch by batch.

- `plan`: ways to divide devices among which a model is served.
- `kernels`: a step of a model as kernels and collectives on each of several devices.
- `held`: bytes that a device holds by a plan.
- `on_cluster`: the time of a step on the devices of a cluster by a plan, and what limits each part of the model.
- `on_architecture`: each part mapped onto an architecture, and its instances summed.
- `tokens`: a table of steps over batches and contexts: time for each token and to the first one, memory, the front.
- `layer_times`: seconds of kernels by name, on a cluster or an architecture.
- `llmservingsim`: these times as a profile that LLMServingSim reads.
"""
