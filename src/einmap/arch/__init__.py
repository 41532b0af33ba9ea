"""Hardware as values bound for one Einsum: components, constraints, and the tree that holds them.

Read `constraint`, then `component`, then `tree`.

- `component`: memories, tolls, networks, computes and containers, with every number bound for one Einsum.
- `constraint`: what the hardware demands of a mapping, as data.
- `layout`: how a tensor lies in a memory: which values a line holds.
- `ports`: ports and banks of a memory: how many accesses it serves at a time.
- `renamed`: an architecture bound for one Einsum, as it is for another one that is the same but for names.
- `tree`: the architecture tree: hierarchy, forks, the flat path of one Compute, instances and power gating.
"""
