"""A cascade of Einsums from a program of tensor operations: what readers of models share.

A value of the program is not a tensor of the cascade by itself. It is a map expression over *views*: parts of stored
tensors, seen through indices. So element-wise operations join the Einsum that uses them, and operations on shapes alone
(reshape, transpose, slice, broadcast) become projections. In which order to read:

- `views`: how the axes of a value index a stored tensor, and what a change of shape does to that.
- `values`: what an operation of the program gives: a map expression over views, perhaps known numbers.
- `program`: the Einsums and stored tensors that are collected.
- `uses`: how an Einsum indexes axes: by labels, within windows, at places that are looked up.
- `builder`: one operation at a time: Einsums from labelled axes, windows with zero padding, and copies
  where indices need them.
- `slide`: windows that slide over axes.
- `step`: what one operation of a program asks for: map expressions by text, changes of shape with copies where needed.
- `scaled`: sums of products of integers that stand for fractions: scales behind the sums.
- `phases`: convolutions whose inputs stand apart, by outputs that use the same places of the kernel.
- `parts`: concatenated values, which operations take part by part.
- `recurrence`: recurrences of a program: states that each step reads as the step before has left them, for all steps at
  once.
- `split_ranks`: ranks that are read in digits become several, so that heads are ranks of their own.
- `layers`: equal layers as one with instances.
- `write`: the collected Einsums as a section `workload` of a specification, with names for ranks and rank variables.
- `imported`: what an import gives: the specification, what became of each operation, and how values go in and out.
"""
