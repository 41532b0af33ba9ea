"""The analytical cost model: workload, architecture and mapping to Cost; no search, no files.

- `batch`: the cost model over arrays of tile shapes: one template, many choices at a time.
- `buffering`: memories with one buffer: what is exchanged with them, and what goes on inside of them, take turns.
- `checks`: what is checked, and said, beside the counts.
- `cost`: cost: the result of an evaluation, in joules, seconds, m^2 and fractions of capacity.
- `cost_difference`: how two costs differ: totals, and the rows that changed.
- `cost_rows`: what the cost lists of one Einsum: actions, leakage, the time that components are busy, and lanes.
- `counting`: how often tiles are visited, and which values they hold: all that counts are made of.
- `einsum_cost`: energy and latency of one instance of an Einsum by itself, of one mapping or of many at a time.
- `evaluate`: evaluate(): from a specification with a mapping to its cost, step by step.
- `explanation`: why a mapping costs what it does: every number of an evaluation with what it is made of.
- `fusion`: what a mapping fuses: where each intermediate tensor is kept, below which loops, and which Einsums share
  these.
- `isomorphism`: Einsums that see the same of a mapping but for names, layers of a network say: one is counted for
  all of them.
- `latency`: seconds from action counts: a component is busy for the sum of its actions, or as its expression says.
- `occupancy`: what memories hold at one time.
- `overlap`: fused Einsums that overlap: a component that several use is busy for all of them.
- `pipelines`: pipelines: how many tiles go through, how long that takes, and for how long everything leaks meanwhile.
- `recording`: the formulas of one template as a list of operations, for single mappings.
- `roofline`: what computes and memories could do at most, and what each Einsum does.
- `stalls`: stalls tile by tile: how long an Einsum takes where tiles come in and go out beside the turns before and
  after them.
- `systolic`: fill and drain of systolic arrays: lanes that begin one step after another.
- `ways`: how long one value is on its way, where actions take time until their value is there.
- `traffic`: what moves between memories, tolls, networks and compute units.
"""
