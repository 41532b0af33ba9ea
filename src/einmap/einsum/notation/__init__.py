"""Einsums as text, read and written.

- `names`: names of partitions: `K` becomes `K1, K0`, its rank variable `k` becomes `k1, k0`.
- `parse`: the concise notation: `Z[m, n] = A[m, k] * B[k, n]` <-> accesses and operation.
- `pretty`: a workload as text: its Einsums with the sizes of their ranks, or one loop nest for each Einsum.
"""
