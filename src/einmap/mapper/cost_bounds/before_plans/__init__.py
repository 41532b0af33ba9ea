"""Bounds of an Einsum before its choices are listed.

- `floors`: each tensor held, by itself, in the way that costs least.
- `free_tables`: what is left to pay, whatever memories further in keep, and in which order; the dataplacements that
  these tables leave.
- `keeping`: what the memories of a path may keep.
- `merged_lanes`: machines whose outer lanes are merged.
- `placement_kernels`: the compiled part of tables over all dataplacements.
"""
