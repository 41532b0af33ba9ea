"""A mapping becomes a program.

- `declare`: what the code declares: tensors, buffers, counters, loop indices.
- `liveness`: when results are there: which exchanges of partial results happen, and which lanes take part.
- `lower_leaf`: the innermost nests of a program: operations and copies.
- `lower`: a mapping becomes a program: walk the LoopTree, open buffers, move tiles, compute.
- `scope`: what is in scope where code is emitted: loop indices, tile sizes, and which tiles may be empty.
- `tile_boxes`: the tile of each storage node: which indices it covers, as integers of the code.
"""
