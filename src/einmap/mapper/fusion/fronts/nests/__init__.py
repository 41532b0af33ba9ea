"""Outer nests of one Einsum: their enumeration, rules, bounds and dominance.

- `dominance`: dominance between outer nests: one that goes on as another does, and is worse, is left out.
- `gap_kernels`: the compiled part of the listing that looks at one gap or fanout: its loops and their order.
- `growing`: what is found of an Einsum's chains so far: lists of outer nests, and fronts.
- `listing`: the outer nests of one dataplacement, part by part.
- `loops`: fused loops: those that other Einsums may stand below, as one Einsum writes them and as a tensor sees
  them.
- `met_loops`: loops above shared tensors that the other Einsums can meet: an outer nest with others is of no use.
- `nest_keys`: loops above shared tensors that outer nests have, where these are too many to be listed.
- `nest_kernels`: the compiled listing, bounds and dominance of outer nests.
- `nest_plan`: what all outer nests of one dataplacement have in common, as arrays.
- `nest_rules`: what the outer nests of one search have in common: how many loops there may be, and the space that
  nodes take.
- `outer_nests`: outer nests: the outer part of an Einsum's nest, from the outermost memory down to the last backing
  node of a shared tensor.
- `pruned_bounds`: lower bounds of what a listing left out because it was too costly, so that it need not be made
  anew for nothing.
- `signatures`: fusion signatures: what other Einsums see of a chain.
- `turns`: what an outer nest says of the ways of values: those of all turns, and what is waited for once.
- `twins`: signatures whose outer nests differ in the order of loops alone: one front, searched once.
"""
