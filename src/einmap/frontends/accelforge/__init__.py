"""Specifications as files that AccelForge 1.0.467 reads.

- `architecture`: the section `arch`: costs as numbers, only fields that it has.
- `loop_tree`: the section `mapping`, every loop with one name for its rank variable.
- `workload`: the section `workload`, sizes and widths as numbers, renames at each Einsum.
- `write`: a specification -> workload.yaml, architecture.yaml and mapping.yaml.
"""
