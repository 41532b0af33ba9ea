"""Cost of each value that fills a storage node, read off the model's formulas.

- `affine`: numbers that depend on how often nodes are filled: a constant, and a rate for each.
- `exchange_costs`: what one exchange of a tensor costs, from the model's traffic and actions.
- `leakage`: leakage, and other power that is drawn all the time, for each use of the lanes.
- `line_rates`: the numbers of lines that tiles touch, at each point of the lattice.
- `unit_fills`: the model's traffic of one tensor for fills that are not known yet.
- `way_costs`: the ways of single values as constants of columns.
"""
