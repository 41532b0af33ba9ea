"""The analytical cost model: workload, architecture and mapping to Cost; no search, no files.

- `checks`: what is checked, and said, beside the counts.
- `cost`: cost: the result of an evaluation, in joules, seconds, m^2 and fractions of capacity.
- `cost_difference`: how two specifications and their costs differ: structure, totals, rows that changed.
- `cost_rows`: what the cost lists of one Einsum: actions, leakage, the time that components are busy, and lanes.
- `counting`: how often tiles are visited, and which values they hold: all that counts are made of.
- `evaluate`: evaluate(): from a specification with a mapping to its cost, step by step.
- `explanation`: why a mapping costs what it does: every number of an evaluation with what it is made of.
- `fusion`: what a mapping fuses: where each intermediate tensor is kept, below which loops, and which Einsums share
  these.
- `isomorphism`: Einsums that see the same of a mapping but for names, layers of a network say: one is counted for
  all of them.
- `occupancy`: what memories hold at one time.
- `pipelines`: pipelines: how many tiles go through, how long that takes, and for how long everything leaks meanwhile.
- `roofline`: what computes and memories could do at most, and what each Einsum does.
- `sparsity`: dense counts divided into what is done, gated and skipped where values are zero.
- `traffic`: what moves between memories, tolls, networks and compute units.
- `timing`: seconds from counts: what components wait for, and what goes on at one time.
- `batch`: the costs of many choices of tile shapes at a time.
"""
