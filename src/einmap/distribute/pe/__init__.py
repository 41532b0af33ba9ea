"""A processing element with an architecture of its own: the mapper costs what each PE computes.

- `combined`: the architecture of a PE and a workload as one specification.
- `mapped`: what the Einsums of a workload cost on the architecture, remembered by shape.
"""
