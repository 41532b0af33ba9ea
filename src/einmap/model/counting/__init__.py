"""How often tiles are visited, and which values they hold: all that counts are made of.

- `first_touch`: first touches of an output whose tiles overlap or leave holes, by going through the visits in time
  order.
- `hull`: one buffer for several Einsums: the hull of what they use of a tensor in each visit.
- `lines`: how many lines of a memory the tiles of one tensor touch, visit by visit.
- `path`: what one Einsum sees of a LoopTree: its loops and, for each tensor, the stations that hold it.
- `pipeline_tiles`: the tiles of a Pipeline: how many go through, in which order, and which loops make them.
- `reuse`: how often a tile of one tensor is visited, and how many values that moves.
- `semantics`: the two presets of counting rules, as data that one engine reads.
- `sliding`: sliding windows: which storage nodes keep what the next visit needs again, as a line buffer does.
- `spatial`: how much of each fanout an Einsum uses.
- `tiles`: tile extents of one rank variable under a chain of loops, ragged tiles counted exactly.
- `units`: a tile in a memory that is several units of an array: which part of it each unit has.
"""
