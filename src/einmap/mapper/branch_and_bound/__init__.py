"""The exact search of one Einsum: depth first, with cost-to-go tables as bounds.

- `decode`: from a path through the lattice to a LoopTree.
- `einsum_search`: the best mappings of one Einsum over all its compute paths, proven: lanes in chunks,
  dataplacements by their bounds.
- `isomorphism`: keys of searches that are the same but for names, so that one search or set of tables serves several
  Einsums.
- `kernels`: the compiled part of the search: the depth-first search that cost-to-go tables guide, and what it is
  made of.
- `listed_search`: ties from what the search for the least energy or latency has listed: what its tables leave is
  searched, not all.
- `narrowed_plans`: dataplacements that may be better than a good mapping, where all of them are too many to list.
- `optimum`: what the search of one Einsum comes to: the best mappings, a bound, and how much was looked at.
- `path_search`: branch and bound over the dataplacements of one Einsum on one path: the best mappings, proven.
- `smallest_tiles`: whether anything fits, without a search: the smallest tiles that a dataplacement and a use of
  the lanes leave.
- `sparse_search`: the search of one Einsum on one path where the lattice is large, or loops leave most of it out:
  tables with few rows, filled plan by plan.
- `stalled`: mappings of machines that stall tile by tile, as searches come to them: in their best order, with their
  real latency.
- `taken_plans`: tables of the dataplacements that a search takes some at a time, with the same uses of the fanouts.
- `tied_search`: ties of one Einsum: of the mappings that are equally good by energy or by latency the best by the
  other one.
- `zeros_parts`: parts of a search with zeros: dataplacements with windows of what stands further out, and formats
  that are left.
- `zeros_search`: branch and bound where tensors have zeros: columns of cost are lower bounds, and the model judges
  what is left.
"""
