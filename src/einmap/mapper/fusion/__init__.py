"""The search of cascades: intermediate tensors kept inside, tile by tile.

- `bound_tightening`: tighten lower bounds under a cutoff: what no cascade up to it can have is left out, and bounds
  rise.
- `boundary_states`: boundary states: what earlier Einsums of a cascade leave to later ones.
- `budget`: the budget of a search of a cascade: progress, nodes and work so far, and whether it was stopped.
- `copy_fronts`: the chains of a copy Einsum: only where its tensors are kept matters, and the loops above them.
- `einsum_fronts`: pareto fronts of one Einsum, one for each fusion signature: of the mappings that look the same to
  other Einsums the best ones.
- `fallback`: fallback when a fused search is stopped: map each Einsum by itself, and report a lower bound.
- `fused_result`: the result of a fused search, and what it leaves out: Einsums that tables cannot search, and what
  had no room.
- `hulls`: the space of a shared tensor's outermost storage: it has room for all that any of its users uses there.
- `label_setting`: label setting over the state graph: sums of costs, and the space that is needed at the same time.
- `least_products`: the least product of two costs whose weighted sums are bounded, and the weight that may raise
  it.
- `loops`: fused loops: those that other Einsums may stand below, as one Einsum writes them and as a tensor sees
  them.
- `lower_envelope`: lower envelopes: corners of what bounds at several weights leave, where products of costs are
  least.
- `option_bounds`: lower bounds of options: what is known of the fronts of each Einsum, and what every option costs
  and takes at least by that.
- `options`: options: what other Einsums see of each Einsum of a cascade, by slots, so that Einsums that look the
  same have the same options.
- `outer_nests`: outer nests: the outer part of an Einsum's nest, from the outermost memory down to the last backing
  node of a shared tensor.
- `path_kernels`: the compiled part of putting Einsums together: least costs of paths, and the rows of a join.
- `problem`: A cascade whose best fused mapping is asked for: its Einsums with their chains, and what each costs at
  least.
- `pruned_bounds`: lower bounds of what a listing left out because it was too costly, so that it need not be made
  anew for nothing.
- `refinement`: lazy refinement: the best of a cascade when, of each Einsum, only what can be a part of something
  good is listed.
- `refinement_request`: what is to be known of an Einsum's fronts, and up to which limit.
- `search`: the best fused mappings of a cascade: what is asked of the search, and the trees of what it finds.
- `shared_inputs`: graph inputs with several users: copies for the search, and what is left of them in the mapping
  found.
- `shortest_paths`: shortest paths through the state graph: what a whole cascade costs at least.
- `state_graph`: the state graph of a cascade: which options of successive Einsums fit.
- `table_sharing`: einsums with the same tables: alike but for what else uses their tensors, such as the first or
  last of a network.
- `table_store`: the dataplacements of an Einsum with the uses of the fanouts that they admit, and the searches that
  look at them.
- `tree`: the LoopTree of chains that fit: what they share above splits, the rest in branches.
- `unfused_fronts`: fronts of an Einsum that tables cannot search: its mappings that fuse nothing.
- `whether`: whether a workload has any mapping: what hints are checked with before they are given.
"""
