"""Pydantic input models: which fields exist, of which form, with which defaults. Expressions stay text.

- `arch`: input models of the architecture: one class for each node tag.
- `base`: what all input models share, and the translation of Pydantic's complaints into located errors.
- `cluster`: input models of the cluster that a distribution is planned for.
- `distribution`: input model of the distribution of a workload over a mesh.
- `documented`: what is said of a field beside its type and default: meaning, unit, examples.
- `fields`: all fields by name, with what is said of them, for the reference and for look-ups.
- `json_schema`: the input models as one JSON Schema, for editors and for specifications that are made by programs.
- `latency`: input models of machine facts that change how long a mapping takes.
- `layout`: input models of how tensors lie in a memory.
- `machine`: input models of a machine file: the memories, links and compute units of a plan for a matrix product.
- `mapping`: input models of mapping nodes: one class for each tag.
- `options`: input models of the keys `model`, `config` and `mapper`.
- `placement`: input models of what an architecture asks of mappings: limits, fanout dimensions, tensors that are held.
- `sparsity`: input models of the key `sparsity`: zeros of tensors, and what is gained by them.
- `workload`: input models of the workload and of renames.
"""
