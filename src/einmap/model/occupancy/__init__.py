"""Contents of memories at one time.

- `lifetimes`: how long each buffer lives, and what a memory holds at one time.
- `occupancy`: space: what each storage node needs in its memory, as a buffer.
- `overflow`: what is said where tiles do not fit into a memory.
- `sharing`: storage nodes above a split: one buffer for several Einsums, filled once, and what fusion may do.
- `stages`: what lives at one time while the stages of a Pipeline work, each on a tile of its own.
"""
