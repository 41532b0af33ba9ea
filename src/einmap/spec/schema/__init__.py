"""Pydantic input models: which fields exist, of which form, with which defaults. Expressions stay text.

- `arch`: input models of the architecture: one class for each node tag.
- `base`: what all input models share, and the translation of Pydantic's complaints into located errors.
- `distribution`: input model of the distribution of a workload over a mesh.
- `json_schema`: the input models as one JSON Schema, for editors and for specifications that are made by programs.
- `machine`: input models of a machine file: the memories, links and compute units of a plan for a matrix product.
- `mapping`: input models of mapping nodes: one class for each tag.
- `workload`: input models of the workload and of renames.
"""
