"""Loop nests as code with explicit data movement, derived from a mapping.

- `build`: a specification becomes a Program: check the mapping, declare, lower, tidy up.
- `print_c`: C99: buffers as arrays, moves as small functions, and a main that checks itself against a plain loop nest.
- `c_runtime`: the rest of a C file: functions that move boxes, the plain loop nest, main.
- `comments`: the text of comments in emitted code.
- `dead_definitions`: define each size once in a block, and leave out those that nothing uses.
- `declare`: what the code declares: tensors, buffers, counters, loop indices.
- `emit`: emit(): the loop nest of a mapping as code with explicit data movement.
- `identifiers`: identifiers of the target language for the names of a specification.
- `linear`: integers of the emitted code: sums of `coefficient * name` and a constant.
- `liveness`: when results are there: which exchanges of partial results happen, and which lanes take part.
- `lower_leaf`: the innermost nests of a program: operations and copies.
- `lower`: a mapping becomes a program: walk the LoopTree, open buffers, move tiles, compute.
- `program`: the small language between mappings and printers: buffers, loops, moves, operations.
- `print_pseudo`: text as a lecture would show it: loops with bounds, parallel loops, mvin and mvout.
- `print_python`: python: one function on NumPy arrays.
- `scope`: what is in scope where code is emitted: loop indices, tile sizes, and which tiles may be empty.
- `symbols`: symbols for text: K = K2*K1*K0, and tile shapes as products of the counts of the loops further in.
- `text`: what the printers share: conditions, amounts, arithmetic, indented lines.
- `tile_boxes`: the tile of each storage node: which indices it covers, as integers of the code.
"""
