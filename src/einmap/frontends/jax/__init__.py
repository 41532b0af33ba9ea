"""Functions of JAX: jaxpr -> a cascade of Einsums. The function is traced, not run.

- `equation`: one equation of a jaxpr while it is imported.
- `elementwise`: primitives that compute number by number.
- `layout`: primitives on shapes alone, slices and padding.
- `lookups`: values that are looked up, put in order or chosen; products with one matrix for each group of rows.
- `scatters`: values written into a part of a tensor: caches, scattered values, sums of updates.
- `contractions`: products that are summed, reductions and windows.
- `placements`: `PartitionSpec`s as placements of a distribution.
- `scans`: scans whose steps are all alike, as recurrences: the body for all steps at once, what it carries as states.
- `read`: a whole function: its jaxpr equation by equation, calls inlined, scans kept or unrolled.
"""
