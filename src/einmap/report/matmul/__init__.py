"""The terminal reports of plans of a matrix product.

- `matmul`: the terminal report of a matmul plan: levels, time, traffic against the bound, layouts, and the loop
  nest.
- `matmul_measured`: the terminal report of a plan that was run: rates beside those of plain loops, BLAS and the
  roofline.
"""
