"""The specification: the raw tree, its checked shape, and the values bound for one Einsum.

- `binding`: expressions into values, Einsum by Einsum: workload, architecture, components.
- `bindings`: what is evaluated from a specification, each part at first use; the mapping is no part of it.
- `cost_sources`: where the costs of components come from: a line of the specification, or a model with its publication.
- `dialects`: the older and the newer names of one format.
- `gradient_roles`: a specification of a workload with its backward pass, and what renames mean there.
- `models`: component models that a specification may name, and in which order names are looked up.
- `names`: what tensors, Einsums, renames, ranks, rank variables, components and dimensions may be called.
- `raw`: the raw stage of a specification: a tree of values that remember where they come from.
- `schema`: pydantic input models: which fields exist, of which form, with which defaults.
- `open_layouts`: layouts that a specification leaves open: what there is to choose.
- `open_formats`: formats of sparse tensors that a specification leaves open: what there is to choose.
- `shared_inputs`: copy Einsums for graph inputs that several Einsums read: one fill then serves them all.
- `spec`: spec: a specification as users hold it.
- `forms`: parts of a specification between their raw form and values.
"""
