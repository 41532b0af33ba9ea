"""The search of cascades: intermediate tensors kept inside, tile by tile.

- `fronts`: what one Einsum offers to the others, by what they see of it.
- `paths`: which options fit each other, what they cost together at least, and the best of them.
- `search`: the best fused mappings of a cascade: what is asked of the search, and the trees of what it finds.
- `problem`: a cascade whose best fused mapping is asked for: its Einsums with their chains, and what each costs at
  least.
- `cascade_objective`: the number by which cascades are compared: a sum of costs, the product of two sums, or a sum
  while another one is limited.
- `option_bounds`: lower bounds of options: what is known of the fronts of each Einsum, and what every option costs
  and takes at least by that.
- `option_floors`: what whole cascades with an option cost at least, by all graphs so far: later ones have no option
  beyond the cutoff.
- `relaxation`: what a graph of boundary states says of a cascade: what it costs at least, which options are near the
  best, and the best of what is complete.
- `refinement`: lazy refinement: the best of a cascade when, of each Einsum, only what can be a part of something
  good is listed.
- `front_listing`: lists signature classes and completes fronts of Einsums, each up to a limit.
- `refinement_request`: what is to be known of an Einsum's fronts, and up to which limit.
- `busy_fronts`: fused Einsums that overlap: the front of all that their latency is the largest of, for small cascades.
- `shared_inputs`: graph inputs with several users: copies for the search, and what is left of them in the mapping
  found.
- `tie_search`: ties of fused mappings: of cascades that are equally good by energy or by latency the best by the
  other one.
- `recurrent`: the best mapping of a cascade with recurrences: fused over the steps of each, one loop above all its
  Einsums.
- `step_by_step`: a first mapping of a cascade with recurrences: each Einsum by itself, one loop above those of a
  recurrence.
- `steps`: recurrences as the search of a cascade sees them: what holds the Einsums of one together below a loop over
  its steps.
- `tree`: the LoopTree of chains that fit: what they share above splits, the rest in branches.
- `fused_result`: the result of a fused search, and what it leaves out: Einsums that tables cannot search, and what
  had no room.
- `stopped_search`: fallback when a fused search is stopped: map each Einsum by itself, and report a lower bound.
- `whether`: whether a workload has any mapping: what hints are checked with before they are given.
- `budget`: the budget of a search of a cascade: progress, nodes and work so far, and whether it was stopped.
"""
