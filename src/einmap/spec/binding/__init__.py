"""Expressions into values, Einsum by Einsum: workload, architecture, components.

- `bind_arch`: the architecture, bound for one Einsum: the raw tree becomes frozen components.
- `bind_component`: one memory, toll, network or compute, bound for one Einsum: scales applied, costs per action,
  placement.
- `bind_workload`: the workload: from raw Einsums to frozen ones, and the symbols of each.
- `component_context`: what the parts of a component's binding have in common: place, name, scope of expressions.
- `component_models`: costs of a component that its specification leaves out, from the model that its
  `component_class` names.
- `component_costs`: area, leakage, and for each action energy, throughput and actions for one value.
- `component_layout`: how tensors lie in a memory.
- `component_placement`: which tensors a memory or toll holds, and in which direction they pay.
- `component_ports`: ports and banks of a memory.
- `applied_scales`: what a cost was before the specification scaled it, and by what.
- `isomorphism`: Einsums for which the architecture means the same but for names, so that it is bound once for all
  of them.
- `misspelt_attributes`: extra attributes whose names are nearly those that the component's model reads.
- `partial_sums`: bits of a partial sum, where it is wider than a result.
- `per_tensor`: dictionaries keyed by set expressions: `{Inputs: 8, Other: 16}`, spread over the tensors of an
  Einsum.
- `read_workload`: the workload as written: raw Einsums parsed, renames listed, the cascade checked for shape.
- `second_names`: copy Einsums for tensors that one Einsum uses by different indices: every use has a name, and
  tiles, of its own.
- `second_names_tree`: mappings that are written for tensors without their second names (see `second_names`): where
  the copies stand.
- `symbols`: the names that expressions may use for one Einsum: set names, tensors, renames, rank variables.
- `unit_slips`: costs that hardware does not have, most often a slip of a unit.
- `workload_checks`: sizes that nothing uses, or that miss, names that hide others, Einsums that disagree.
"""
