"""Costs of values on the networks that they cross.

- `lanes`: the lanes that values reach over a network.
- `rates`: hops, routes and links, for every use of the lanes at a time.
- `topologies`: steps, routes and links of networks of each topology.
- `tree_kernels`: the compiled part of counting links of networks that are trees.
- `unit_lanes`: the lanes that values reach over a network of an array, from the units in which they lie.
"""
