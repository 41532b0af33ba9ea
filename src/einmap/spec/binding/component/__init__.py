"""One component: its numbers bound for one Einsum.

- `applied_scales`: what a cost was before the specification scaled it, and by what.
- `bind_component`: one memory, toll, network or compute, bound for one Einsum: scales applied, costs per action,
  placement.
- `component_context`: what the parts of a component's binding have in common: place, name, scope of expressions.
- `component_costs`: area, leakage, and for each action energy, throughput and actions for one value.
- `component_layout`: how tensors lie in a memory.
- `component_models`: costs of a component that its specification leaves out, from the model that its
  `component_class` names.
- `component_placement`: which tensors a memory or toll holds, and in which direction they pay.
- `component_ports`: ports and banks of a memory.
- `misspelt_attributes`: extra attributes whose names are nearly those that the component's model reads.
- `unit_slips`: costs that hardware does not have, most often a slip of a unit.
"""
