"""Fronts: what one Einsum of a cascade offers to the others, by what they see of it.

- `loops`: fused loops: those that other Einsums may stand below, as one Einsum writes them and as a tensor sees
  them.
- `outer_nests`: outer nests: the outer part of an Einsum's nest, from the outermost memory down to the last backing
  node of a shared tensor.
- `nest_rules`: what the outer nests of one search have in common: how many loops there may be, and the space that
  nodes take.
- `own_seconds`: what an Einsum does while it runs, apart from what works ahead of it: where fused Einsums overlap.
- `turns`: what an outer nest says of the ways of values: those of all turns, and what is waited for once.
- `pruned_bounds`: lower bounds of what a listing left out because it was too costly, so that it need not be made
  anew for nothing.
- `table_store`: the dataplacements of an Einsum with the uses of the fanouts that they admit, and the searches that
  look at them.
- `protocol`: what every kind of fronts offers to the search of a cascade.
- `listed_fronts`: fronts of which all chains are listed when they are made.
- `planned_einsum`: an Einsum with the dataplacements of all its paths, before its fronts are made.
- `dominance`: dominance between outer nests: one that goes on as another does, and is worse, is left out.
- `einsum_fronts`: Pareto fronts of one Einsum, one for each fusion signature: of the mappings that look the same to
  other Einsums the best ones.
- `copy_fronts`: the chains of a copy Einsum: only where its tensors are kept matters, and the loops above them.
- `unfused_fronts`: fronts of an Einsum that cannot be fused: its mappings by itself.
- `hulls`: the space of a shared tensor's outermost storage: it has room for all that any of its users uses there.
- `table_sharing`: Einsums with the same tables: alike but for what else uses their tensors, such as the first or
  last of a network.
"""
