"""The algebra: tensors, projections, Einsums and cascades of them; knows nothing of hardware.

Read `projection`, then `operation`, `space`, `einsum`, `workload`; `parse` reads the concise notation,
`numeric` says what values a workload computes. Changes of a workload: `partition`, `flatten`, `delay`, all in `steps`;
`pretty` prints it.
"""
