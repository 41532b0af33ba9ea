"""Finding mappings.

- `mapper`: find the best mapping of a workload: what `einmap.map_workload` does once files are read.
- `capabilities`: what goes together in a search: features, and the pairs that no search knows yet.
- `fusion_saving`: what fusion saves: the best mapping against the best one that fuses nothing.
- `warm`: compile the kernels of the search ahead, or load them from the cache on disk.
- `compose`: how searches are put together: layouts, shared inputs, ties, time that is over.
- `pipelined`: the search of Pipelines: successive Einsums as stages that work on successive tiles at one time.
- `fusion`: the search of cascades: intermediate tensors kept inside, tile by tile.
- `zeros`: the search of one Einsum whose tensors have zeros, at its expected costs.
- `independent`: the search of every Einsum by itself, and the tree of the best parts.
- `infeasibility`: why nothing fits, and the least changes that would help.
- `exhaustive`: every mapping, one by one: the judge of the other searches, and the search of Einsums that they
  cannot handle.
- `branch_and_bound`: the exact search of one Einsum: depth first, with cost-to-go tables as bounds.
- `cost_bounds`: what a mapping, or a part of one, costs at least.
- `result`: what a search returns, and what that may claim.
- `problem`: what is asked of a search: its options, its memory, the request to the search of one Einsum.
- `templates`: dataplacements as chains of segments, the form in which they are bounded and searched.
- `given`: a partly given mapping as a constraint of the search.
- `mapspace`: which mappings exist: dataplacements, tile shapes, uses of the fanouts.
- `objective`: what a mapping is judged by: metrics, kernels, Pareto fronts, tolerances.
"""
