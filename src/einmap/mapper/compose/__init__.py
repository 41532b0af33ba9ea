"""How searches are put together, and the searches of whole workloads that are.

- `combinators`: the best of several searches, one after another, over ways, with ties broken, with a fallback, on an
  easier machine.
- `ways`: specifications that the search of a cascade takes in its place: with copies of inputs, with steps.
- `cascade`: the search of a cascade as a whole, on one way, and what it leaves out: Einsums that tables cannot search,
  and what had no room.
- `einsum_by_einsum`: the search of each Einsum by itself, and what that leaves out where fusion was asked for.
- `stopped_search`: what there is where a search of a cascade is stopped, or finds nothing: each Einsum by itself, begun
  before it.
- `step_by_step`: a first mapping of a cascade with recurrences: each Einsum by itself, one loop above those of a
  recurrence.
- `joint_latency`: cascades whose latency is not a sum over their Einsums: bounds that are, and what they find,
  evaluated.
- `fused_zeros`: cascades whose tensors have zeros: the best fused mapping, and where its search is stopped fused
  mappings of dense machines, and a bound for all.
- `padded`: fused mappings with imperfect factors, by way of larger ranks in which the same tile shapes are perfect.
- `left_open`: choices that a call leaves to the search: layouts, rewrites of the cascade.
- `shared_inputs`: graph inputs with several users: copies for the search, and what is left of them in the mapping
  found.
- `nothing_fits`: why nothing fits of a whole cascade, and the least sizes that would do.
"""
