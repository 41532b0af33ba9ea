"""How searches are put together.

- `best_layouts`: layouts that are left open: which one is best for each tensor in each memory, with the mapping that is
  best for it.
- `joint_latency`: cascades whose latency is not a sum over their Einsums: bounds that are, and what they find,
  evaluated.
- `busy_fronts`: fused Einsums that overlap: the front of all that their latency is the largest of, for small cascades.
- `padded`: fused mappings with imperfect factors, by way of larger ranks in which the same tile shapes are perfect.
- `recurrent`: the best mapping of a cascade with recurrences: fused over the steps of each, one loop above all its
  Einsums.
- `step_by_step`: a first mapping of a cascade with recurrences: each Einsum by itself, one loop above those of a
  recurrence.
- `shared_inputs`: graph inputs with several users: copies for the search, and what is left of them in the mapping
  found.
- `tie_search`: ties of fused mappings: of cascades that are equally good by energy or by latency the best by the
  other one.
- `fused_result`: the result of a fused search, and what it leaves out: Einsums that tables cannot search, and what
  had no room.
- `unfused_result`: the result of a search that maps each Einsum by itself, and what that leaves out where fusion
  was asked for.
- `stopped_search`: fallback when a fused search is stopped: map each Einsum by itself, and report a lower bound.
- `cascade_sizes`: why no mappings of a cascade fit together although each Einsum has some, and the least sizes that
  would do.
- `whether`: whether a workload has any mapping: what hints are checked with before they are given.
"""
