"""A workload: its Einsums with everything bound.

- `bind_workload`: the workload: from raw Einsums to frozen ones, and the symbols of each.
- `partial_sums`: bits of a partial sum, where it is wider than a result.
- `read_workload`: the workload as written: raw Einsums parsed, renames listed, the cascade checked for shape.
- `second_names_tree`: mappings that are written for tensors without their second names (see `second_names`): where
  the copies stand.
- `second_names`: copy Einsums for tensors that one Einsum uses by different indices: every use has a name, and
  tiles, of its own.
- `checks`: sizes that nothing uses, or that miss, names that hide others, Einsums that disagree.
"""
