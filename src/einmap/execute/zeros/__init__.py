"""Zeros while a mapping runs: what hardware does of each read, write and operation, counted on masks.

Nothing here shares a formula with the model: tiles are looked at, and written out in their formats, one by one.

- `actions`: counts of zeros as actions, by the names that an evaluation gives them
- `begin`: masks before a run, and features beside which zeros are not known
- `zeros`: tiles that pass between memories: what is saved of them, and what they take
- `points`: the operations of one visit of the innermost loops
- `encode`: a tile written out in a format
- `parted`: parts of a tile in a format with blocks or padding
"""
