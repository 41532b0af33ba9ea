"""Einsums rewritten: ranks partitioned, flattened, reductions delayed.

- `delay`: delayed reduction: a reduced rank is kept in a temporary tensor, and reduced by an Einsum of its own.
- `edit`: what all changes of Einsums need: other rank variables in an index, other accesses, names that are free.
- `flatten`: flatten ranks into one, and linearise that one: the way back from partitions, and how ranks are
  concatenated.
- `partition`: partition a rank: in every tensor that has it, two or more ranks take its place.
- `steps`: changes of a workload as values: done one after the other, read from text, and their tensors taken along.
"""
