"""Checks and notes beside the counts.

- `advice`: notes on a result: where the counting differs from what users of a peer expect, and what could be saved.
- `array_units`: several Einsums that use one tile in the units of an array's memory.
- `constraints`: constraints of the architecture that a hand-written mapping may violate: notes, or errors on
  request.
- `gathers`: what a mapping may do where an Einsum looks up rows of a table in an index tensor.
- `half_reduced`: consumers that read sums of which some parts are missing.
- `invariants`: what holds for every result.
- `outputs_at_sums`: outputs that are indexed by sums of rank variables: which of them the search can count.
- `partial_sums`: partial sums with a width of their own: what they do not go together with yet.
- `reachable_usage`: how far the dimensions of fanouts can be used, which `min_usage` may ask for.
- `recurrences`: recurrences over a rank: what of the model does not know them.
"""
