"""The small language between mappings and printers.

- `dead_definitions`: define each size once in a block, and leave out those that nothing uses.
- `identifiers`: identifiers of the target language for the names of a specification.
- `linear`: integers of the emitted code: sums of `coefficient * name` and a constant.
- `program`: the small language between mappings and printers: buffers, loops, moves, operations.
- `symbols`: symbols for text: K = K2*K1*K0, and tile shapes as products of the counts of the loops further in.
"""
