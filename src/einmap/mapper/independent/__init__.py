"""Every Einsum searched by itself, and the best parts in one tree.

- `independent_search`: every Einsum of a workload by itself, alike ones once, and the best parts in one tree.
- `einsum_result`: what the search of one Einsum of a workload gave, and how it went.
- `joined`: mappings of the Einsums of a workload put together into one tree that fuses nothing.
- `planning`: choices of the Einsums, listed before they are searched, and which Einsums are the same.
- `descent`: a good mapping of one Einsum without lists of its choices, by local moves.
- `first`: a mapping of one Einsum that fits, soon: what is given where a search had no time to come to one.
- `whole_tensors`: shared tensors that Einsums exchange whole, below the outermost memory, also where nothing is
  fused.
- `unfused_bound`: lower bounds for a cascade of which only some mappings were searched: each Einsum at its best.
- `front_limits`: limits of the fronts of Einsums whose sums of energy and of latency are multiplied.
"""
