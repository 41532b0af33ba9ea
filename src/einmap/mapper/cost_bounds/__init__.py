"""Lower bounds of the cost of a mapping, or of a part of one.

- `before_plans`: bounds of an Einsum before its choices are listed.
- `coefficients`: what one storage node costs: coefficients of the values that pass, for every use of the lanes at a
  time.
- `columns`: the columns of cost that a search adds up: energy, and sums of busy times whose largest is the latency.
- `compute_path`: one path of the architecture with everything that the search of an Einsum on it needs: lattice,
  lanes, plans.
- `cost_to_go`: cost-to-go tables: what the rest of a dataplacement costs at least, for each point of the lattice
  and each column.
- `least_of_nodes`: least costs of storage nodes, wherever they stand.
- `networks`: what values cost on the networks that they cross.
- `path_costs`: coefficients of cost and sizes of tiles on one path with some uses of the lanes, as arrays over
  lanes and lattice.
- `rates`: costs of each value, read off the model's traffic; ways, lines and leakage.
- `relaxed_bounds`: bounds that need no tables.
- `stalling_machine`: a machine that stalls tile by tile, beside the one on which its costs are bounded.
- `tile_limits`: limits on tile shapes (`tensors.tile_shape`): on a lattice, as rows for a kernel, for points.
- `units`: what memories that are several units of an array hold and send at least.
- `use_dominance`: uses of the fanouts below a network that are never better than others.
- `zeros`: least costs of mappings of one Einsum whose tensors have zeros.
"""
