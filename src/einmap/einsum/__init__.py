"""The algebra of Einsums; knows nothing of hardware.

- `einsum`: one Einsum with everything bound: accesses, bounds of its rank variables, operation.
- `functions`: the functions of map expressions, one entry for each: what a new function adds here is all that the
  algebra asks.
- `gather`: rows of a tensor that are looked up in other tensors.
- `isomorphism`: Einsums that are the same but for names, the layers of a network say: how to tell, and how names are
  exchanged.
- `numeric`: plain numpy evaluation of a workload: the meaning of everything else.
- `operation`: what an Einsum computes: a map expression over its inputs and a reduction over the ranks that vanish.
- `slices`: some values of a workload, from the values that they need.
- `workload`: a workload: a cascade of Einsums in execution order.
- `gradients`: backward passes of cascades, as Einsums.
- `rewrites`: einsums rewritten: ranks partitioned, flattened, reductions delayed.
- `notation`: einsums as text, read and written.
- `spaces`: iteration spaces and how rank variables index tensors.
"""
