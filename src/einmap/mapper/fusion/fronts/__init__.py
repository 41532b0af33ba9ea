"""Fronts: what one Einsum of a cascade offers to the others, by what they see of it.

- `own_seconds`: what an Einsum does while it runs, apart from what works ahead of it: where fused Einsums overlap.
- `table_store`: the dataplacements of an Einsum with the uses of the fanouts that they admit, and the searches that
  look at them.
- `protocol`: what every kind of fronts offers to the search of a cascade.
- `listed_fronts`: fronts of which all chains are listed when they are made.
- `planned_einsum`: an Einsum with the dataplacements of all its paths, before its fronts are made.
- `einsum_fronts`: Pareto fronts of one Einsum, one for each fusion signature: of the mappings that look the same to
  other Einsums the best ones.
- `copy_fronts`: the chains of a copy Einsum: only where its tensors are kept matters, and the loops above them.
- `unfused_fronts`: fronts of an Einsum that cannot be fused: its mappings by itself.
- `hulls`: the space of a shared tensor's outermost storage: it has room for all that any of its users uses there.
- `table_sharing`: Einsums with the same tables: alike but for what else uses their tensors, such as the first or
  last of a network.
- `nests`: outer nests of one Einsum: their enumeration, rules, bounds and dominance.
"""
