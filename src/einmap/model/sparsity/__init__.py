"""Zeros in the model: dense counts divided into what is done, gated and skipped, on average over a density's masks.

- `visits`: the boxes that visits of a node use, by rank variable, equal ones counted once
- `conditions`: when an exchange or an operation is saved, and how likely that is
- `split`: amounts that are done, gated and skipped
- `laid`: tiles that cut a tensor, all of them together
- `sums`: sums over visits, by lane and by what is done, gated and skipped
- `contraction`: sums of products of arrays, one axis after another
- `same`: visits of different mappings whose sums are the same to the last bit
- `even`: sums over masks where loops leave no remainders, with an axis for each loop
- `expected`: expected values, operations and bits of metadata, by instance
- `slowest`: how much longer than on average the busiest lane takes
- `rows`: actions, energy and busy times from these
- `tiles`: room that tiles take in their formats
"""
