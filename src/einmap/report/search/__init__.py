"""The terminal reports of the search lab.

- `census`: the shape of a mapspace, with a histogram.
- `skislope`: the least traffic by capacity, beside its lower bound.
- `strategies`: strategies side by side: gaps to the optimum, and how soon they are small.
"""
