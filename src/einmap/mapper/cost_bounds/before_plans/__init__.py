"""Lower bounds of an Einsum before its choices are listed.

- `floors`: each tensor held, by itself, in the way that costs least.
- `merged_lanes`: a machine with fewer lanes that costs no more.
"""
