"""The search where tensors have zeros, at expected costs.

- `as_found`: dense machines on which actions cost what they cost with zeros in a mapping that was found.
- `by_tables`: each Einsum by itself, by branch and bound, and the best parts in one tree.
- `dense_bound`: a lower bound for all mappings: the optimum of an easier dense machine.
- `expected_cost`: the cost of one mapping of one Einsum, without the rest of a workload.
- `fused_search`: the best fused mapping of a cascade: the search of cascades, with chains by their expected costs.
- `open_choices`: formats that are left open, in the search of one Einsum.
- `with_zeros`: which search a problem gets; where tables do not know an Einsum every mapping is bounded, and those
  that may be the best are evaluated.
"""
