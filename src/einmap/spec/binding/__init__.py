"""Expressions into values, Einsum by Einsum: workload, architecture, components.

- `bind_arch`: the architecture, bound for one Einsum: the raw tree becomes frozen components.
- `isomorphism`: Einsums for which the architecture means the same but for names, so that it is bound once for all
  of them.
- `per_tensor`: dictionaries keyed by set expressions: `{Inputs: 8, Other: 16}`, spread over the tensors of an
  Einsum.
- `symbols`: the names that expressions may use for one Einsum: set names, tensors, renames, rank variables.
- `array_units`: what stands inside an array: its memories are units along the array's dimensions.
- `enabled_computes`: which computes an Einsum may run on: those that it names, or those that the architecture enables.
- `function_view`: `spec` as the user's own functions get it.
- `sparsity`: densities, formats and savings of each Einsum.
- `saved_energies`: saved actions that cost more than those that are done.
- `formats`: formats by name or by levels, ranks in blocks.
- `component`: one component: its numbers bound for one Einsum.
- `workload`: a workload: its Einsums with everything bound.
"""
