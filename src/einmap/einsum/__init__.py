"""The algebra: tensors, projections, Einsums and cascades of them; knows nothing of hardware.

Read `projection`, then `operation`, `space`, `einsum`, `workload`; `parse` reads the concise notation.
"""
