"""What a mapping, or a part of one, costs at least.

- `coefficients`: what one storage node costs: coefficients of the values that pass, for every use of the lanes at a
  time.
- `columns`: the columns of cost that a search adds up: energy, and sums of busy times whose largest is the latency.
- `compute_path`: one path of the architecture with everything that the search of an Einsum on it needs: lattice,
  lanes, plans.
- `cost_to_go`: cost-to-go tables: what the rest of a dataplacement costs at least, for each point of the lattice
  and each column.
- `cost_to_go_kernels`: the compiled part of making cost-to-go tables over the lattice.
- `leakage`: leakage of an architecture for each use of its lanes.
- `line_rates`: what a storage node costs where memories move whole lines.
- `network_lanes`: the lanes that values reach over a network.
- `network_topologies`: steps, routes and links of networks of each topology.
- `network_rates`: what values cost on the networks that they cross, for every use of the lanes at a time.
- `path_costs`: coefficients of cost and sizes of tiles on one path with some uses of the lanes, as arrays over
  lanes and lattice.
- `relaxed_bounds`: bounds that need no tables.
- `sparse_kernels`: the compiled part of making cost-to-go tables that have rows only for points worth it.
- `stalling_machine`: a machine that stalls tile by tile, beside the one on which its costs are bounded.
- `table_blocks`: blocks of cost-to-go tables: which places of which chains have tables in common, whatever their rows
  are.
- `tree_kernels`: the compiled part of counting links of networks that are trees.
- `units`: what memories that are several units of an array hold and send at least.
- `use_dominance`: uses of the fanouts below a network that are never better than others.
- `way_costs`: the ways of single values as constants of columns.
- `tile_limits`: limits on tile shapes (`tensors.tile_shape`): on a lattice, as rows for a kernel, for points.
- `sparse_tables`: cost-to-go tables of large lattices: rows only where something better than what was found may
  come of them.
"""
