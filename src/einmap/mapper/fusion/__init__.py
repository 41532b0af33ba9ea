"""The search of cascades: intermediate tensors kept inside, tile by tile.

- `search`: the best fused mappings of a cascade: what is asked of the search, and the trees of what it finds.
- `problem`: a cascade whose best fused mapping is asked for: its Einsums with their chains, and what each costs at
  least.
- `refinement`: lazy refinement: of each Einsum only what can be a part of something good is listed.
- `paths`: which options fit each other, what they cost together at least, and the best of them.
- `fronts`: what one Einsum offers to the others, by what they see of it.
- `cascade_objective`: the number by which cascades are compared: a sum of costs, the product of two sums, or a sum
  while another one is limited.
- `steps`: recurrences as the search of a cascade sees them: what holds the Einsums of one together below a loop over
  its steps.
- `growing_tables`: tables of the dataplacements of a group that are made once they may say something.
- `thin_plans`: a few promising dataplacements and uses of the fanouts of an Einsum that has too many to list in time.
- `few_choices`: those of all Einsums, where choices are listed, but are too many to be searched soon.
- `neighbours`: a few neighbouring Einsums of the best cascade that is known, mapped anew.
- `tree`: the LoopTree of chains that fit: what they share above splits, the rest in branches.
- `meter`: how much of a search of a cascade has been done: nodes and work so far, and whether it was stopped.
"""
