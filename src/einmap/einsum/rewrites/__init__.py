"""Einsums rewritten: ranks partitioned, flattened, reductions delayed.

- `delay`: delayed reduction: a reduced rank is kept in a temporary tensor, and reduced by an Einsum of its own.
- `edit`: what all changes of Einsums need: other rank variables in an index, other accesses, names that are free.
- `flatten`: flatten ranks into one, and linearise that one: the way back from partitions, and how ranks are
  concatenated.
- `key_blocks`: a softmax and the product behind it in blocks of keys, one after the other or apart from each other.
- `partition`: partition a rank: in every tensor that has it, two or more ranks take its place.
- `softmax`: softmaxes with a product behind, found in a cascade by their structure, and brought into one form.
- `steps`: changes of a workload as values: done one after the other, read from text, and their tensors taken along.
"""
