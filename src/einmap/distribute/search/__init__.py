"""The exact search for a plan: placements of all tensors and loops of all Einsums at least cost.

What may be chosen. Every tensor has a *home*, the placement in which it is kept from its Einsum to its last reader;
a tensor with several readers may have a second home, made from the first. Every Einsum is spread in one way of
`choices`, which says where its operands must lie and where its results come out. Results are moved to their homes,
operands from the nearest home to where they are read, by shortest paths. Homes and ways are the nodes of a selection
problem, moves its edges, and `selection` chooses.

- `actions`: a choice as steps: moves and local Einsums.
- `bands`: large spaces, of which only what is near the lower bound is searched.
- `bounds`: lower bounds of the cost of a plan, in all and for each way and home.
- `homes`: where a tensor may be kept.
- `memory`: limits on the memory of a PE at every moment of a plan.
- `narrowed`: a smaller space: some ways of Einsums and some homes of tensors.
- `parts`: the parts that the cost of a plan is a sum of.
- `problem`: homes and ways as a selection problem.
- `refinement`: costs that take long to find out, by lower bounds of them.
- `search`: the cheapest plan, and what is known about it.
- `smaller_homes`: of homes that cost a plan the same, those with the smallest buffers.
- `space`: the ways of each Einsum and the homes of each tensor, with their costs.
"""
