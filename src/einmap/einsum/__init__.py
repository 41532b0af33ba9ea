"""The algebra of Einsums; knows nothing of hardware.

- `delay`: delayed reduction: a reduced rank is kept in a temporary tensor, and reduced by an Einsum of its own.
- `edit`: what all changes of Einsums need: other rank variables in an index, other accesses, names that are free.
- `einsum`: one Einsum with everything bound: accesses, bounds of its rank variables, operation.
- `flatten`: flatten ranks into one, and linearise that one: the way back from partitions, and how ranks are
  concatenated.
- `functions`: the functions of map expressions, one entry for each: what a new function adds here is all that the
  algebra asks.
- `gather`: rows of a tensor that are looked up in other tensors.
- `isomorphism`: Einsums that are the same but for names, the layers of a network say: how to tell, and how names are
  exchanged.
- `lattice_points`: how many integer points of a box satisfy linear inequalities, in closed form.
- `names`: names of partitions: `K` becomes `K1, K0`, its rank variable `k` becomes `k1, k0`.
- `numeric`: plain numpy evaluation of a workload: the meaning of everything else.
- `operation`: what an Einsum computes: a map expression over its inputs and a reduction over the ranks that vanish.
- `parse`: the concise notation: `Z[m, n] = A[m, k] * B[k, n]` <-> accesses and operation.
- `partition`: partition a rank: in every tensor that has it, two or more ranks take its place.
- `pretty`: a workload as text: its Einsums with the sizes of their ranks, or one loop nest for each Einsum.
- `projection`: how rank variables index a tensor: one affine expression for each rank.
- `recurrence`: recurrences: Einsums that read what a later Einsum, or one of them, has written at an earlier index of a
  rank.
- `slices`: some values of a workload, from the values that they need.
- `space`: the iteration space of an Einsum: integer points that satisfy its constraints, and their bounding box.
- `steps`: changes of a workload as values: done one after the other, read from text, and their tensors taken along.
- `workload`: a workload: a cascade of Einsums in execution order.
"""
