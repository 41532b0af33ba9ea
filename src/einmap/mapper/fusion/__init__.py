"""Fused mappings of cascades: intermediate tensors kept inside, tile by tile.

`heads`: what stands above the storage of shared tensors, for one Einsum; `chains`: the best completions of each;
`interfaces`: which chains of neighbours fit, and what the rest costs at least; `join`: all Einsums together, with the
space that they need at the same time; `tree`: the LoopTree; `fused`: the whole search.
"""
