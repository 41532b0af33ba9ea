"""Cost-to-go tables: what the rest of a dataplacement costs at least.

- `dense_kernels`: the compiled part of making tables with a row for each point.
- `supports`: the points of the lattice at which tables can be finite.
- `dense_tables`: tables with a row for each of these points.
- `kept_room`: room of freed tables, which later ones are written into.
- `sparse_kernels`: the compiled part of making tables that have rows only for points worth it.
- `sparse_tables`: tables of large lattices: rows only where something better than what was found may come of them.
- `table_blocks`: blocks of tables: which places of which chains have tables in common, whatever their rows are.
"""
