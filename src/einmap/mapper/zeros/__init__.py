"""The search of one Einsum whose tensors have zeros, at its expected costs.

- `with_zeros`: every mapping is bounded, and those that may be the best are evaluated.
- `dense_bound`: a lower bound for all mappings: the optimum of an easier dense machine.
"""
