"""The costs of many choices of tile shapes at a time.

- `batch`: the cost model over arrays of tile shapes: one template, many choices at a time.
- `einsum_cost`: energy and latency of one instance of an Einsum by itself, of one mapping or of many at a time.
- `zeros`: lower bounds of expected costs where tensors have zeros.
- `zero_tables`: what these bounds need of tiles, by shape.
- `recording`: the formulas of one template as a list of operations, for single mappings.
"""
