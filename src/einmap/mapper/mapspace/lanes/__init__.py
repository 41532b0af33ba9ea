"""Uses of the fanouts of a path: lanes.

- `spatial_mappings`: how the fanouts of a path may be used: a bound for each (dimension, rank variable).
- `dimension_ways`: ways to use one dimension by itself.
- `fanout_table`: all uses of the fanouts of an architecture path, as arrays: a bound for each dimension and lattice
  axis.
- `fanout_tree`: uses of the fanouts as a tree: lanes of the outermost fanout first, then those of the next one, and
  so on.
- `lane_moves`: uses to begin with, and those that differ from one use in a dimension: for searches without a list.
- `lane_dominance`: uses of the fanouts that are never better than others: these share as many tiles, and more, with
  the same lanes.
"""
