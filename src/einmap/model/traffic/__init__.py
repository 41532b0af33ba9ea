"""Traffic between memories, tolls, networks and compute units.

- `copies`: copy Einsums: the source is read once, each destination elsewhere is written once.
- `networks_crossed`: hops and link traffic: what the exchanges of an Einsum's tensors cost on the networks that they
  cross.
- `mesh_crossing`: one exchange of one tensor over a network: hops, link traffic and the longest route on a mesh, or all
  to all.
- `topologies`: exchanges over a torus, a ring, a systolic array, a tree or a bus: each value's links are listed.
- `unit_crossing`: exchanges over a network of an array whose memories are several units.
- `tensor_traffic`: values exchanged between the stations of one tensor.
- `actions`: the actions that these exchanges cost at each station.
- `einsum_traffic`: all tensors of one Einsum: totals, and the busiest instance of each component.
"""
