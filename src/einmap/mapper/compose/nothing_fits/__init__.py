"""Why nothing fits of a whole cascade.

- `cascade_sizes`: why no mappings of a cascade fit together although each Einsum has some, and the least sizes that
  would do.
- `whether`: whether a workload has any mapping: what hints are checked with before they are given.
"""
