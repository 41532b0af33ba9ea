"""A Metropolis walk over plans (MCMC), with the cost of a plan in the loop: the way of FlexFlow.

Jia, Zaharia and Aiken, "Beyond data and model parallelism for deep neural networks", MLSys 2019, section 6. It walks in
the space of the exact search (`search.space`), proves nothing, and is there to be compared: how far from the least cost
after how many evaluations; and for costs that are not sums, such as time with overlap.

- `energies`: what the walk makes small, and how it changes with a few strategies.
- `starts`: where chains begin: data parallel, and at random.
- `walk`: the chains.
"""
