"""Fast C for one processor: the nest of a mapping with packed tiles, register tiles, vectors and threads.

- `nest`: one product or convolution as loops, packed tiles and a register tile.
- `builder`: the nest of a mapping of one; others are refused.
- `cascade`: a mapping of several Einsums: nests of products, passes of maps and reductions, tiles of intermediates.
- `recurrent`: recurrences, such as the online softmax: each state in one place, overwritten by each step.
- `causal`: a causal mask as an iteration space: rows of a cascade that end at a bound.
- `print_cascade`: a cascade as C.
- `check_cascade`: the `main` of a cascade, which compares with plain loops.
- `fused`: an Einsum that maps the values of the product, computed as the last sums are added.
- `vector_maths`: map expressions over vectors as C, by the formulas of `einsum.functions`.
- `layout`: the order of the values of a packed tile: that in which the loops inside read them.
- `print_nest`: the nest as C, one line of comment for each node of the mapping.
- `print_tile`: the register tile and the functions that pack tiles, as C.
- `turn`: packing of what lies across in memory: squares of values are turned in registers.
- `narrow`: inputs of 8 bits, and bfloat16, widened as they are packed.
- `fast_c`: the whole file, with a `main` that checks and times itself.
"""
