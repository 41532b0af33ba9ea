"""Lazy refinement: of each Einsum only what can be a part of something good is listed.

- `lazy_refinement`: the best of a cascade, refined until what is listed is enough.
- `relaxation`: what a graph of boundary states says of a cascade: what it costs at least, which options are near the
  best, and the best of what is complete.
- `all_at_once`: lists all outer nests that good cascades may have, where they are few.
- `contested`: Einsums that cost more in the best cascade known than the bound says, which are listed first.
- `good_cascades`: a good cascade of what is listed by now, long before the best one is known.
- `option_floors`: what whole cascades with an option cost at least, by all graphs so far: later ones have no option
  beyond the cutoff.
- `met_keys`: keys of shared tensors that the other Einsums of a cascade can meet.
- `keys_of_large`: keys of signature classes that have too many chains to be listed.
- `einsum_floors`: what the chains of an Einsum cost at least, by its own search.
- `option_bounds`: lower bounds of options: what is known of the fronts of each Einsum, and what every option costs
  and takes at least by that.
- `floors_with_room`: bounds of an Einsum before its choices are listed that know what memories have room for.
- `front_listing`: what is to be known of an Einsum's fronts, and up to which limit: signature classes are listed, and
  fronts completed.
- `same_graph`: options that are refined by one graph, more of them where the best known is near the bound.
- `sample`: what a search of all tries beside it: a few of all loops, and what is simpler where that was put off.
- `supposition`: searches as if a cascade were known that costs hardly more than the bound.
"""
