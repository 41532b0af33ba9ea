"""Finding mappings.

- `best_layouts`: layouts that are left open: which one is best for each tensor in each memory, with the mapping that is
  best for it.
- `branch_and_bound`: the exact search of one Einsum: depth first, with cost-to-go tables as bounds.
- `capabilities`: what goes together in a search: features, and the pairs that no search knows yet.
- `cascade_sizes`: why no mappings of a cascade fit together although each Einsum has some, and the least sizes that
  would do.
- `cost_bounds`: what a mapping, or a part of one, costs at least.
- `exhaustive`: every mapping, one by one: the judge of the other searches, and the search of Einsums that they
  cannot handle.
- `fusion`: the search of cascades: intermediate tensors kept inside, tile by tile.
- `fusion_saving`: what fusion saves: the best mapping against the best one that fuses nothing.
- `given`: a partly given mapping as a constraint of the search.
- `independent`: the search of every Einsum by itself, and the tree of the best parts.
- `infeasibility`: why nothing fits, and the least changes that would help.
- `joint_latency`: cascades whose latency is not a sum over their Einsums: bounds that are, and what they find,
  evaluated.
- `mapper`: find the best mapping of a workload: what `einmap.map_workload` does once files are read.
- `mapspace`: which mappings exist: dataplacements, tile shapes, uses of the fanouts.
- `memory_limit`: how much memory the process has in use, and what a limit leaves to a search.
- `objective`: what a mapping is judged by: metrics, kernels, Pareto fronts, tolerances.
- `options`: the options of a search, checked: those of the specification, overridden by those of the call.
- `padded`: fused mappings with imperfect factors, by way of larger ranks in which the same tile shapes are perfect.
- `pipelined`: the search of Pipelines: successive Einsums as stages that work on successive tiles at one time.
- `request`: what is asked of the search of one Einsum.
- `result`: what a search returns.
- `result_cache`: results that are kept on disk, by the content of everything they depend on.
- `templates`: dataplacements as chains of segments, the form in which they are bounded and searched.
- `unfused_result`: the result of a search that maps each Einsum by itself, and what that leaves out where fusion
  was asked for.
- `verdict`: what a result may claim: whether it is proven, for which mappings, and how far it may be from the best.
- `warm`: compile the kernels of the search ahead, or load them from the cache on disk.
"""
