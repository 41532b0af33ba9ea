"""The terminal reports of the search lab.

- `strategies`: strategies side by side: gaps to the optimum, and how soon they are small.
"""
