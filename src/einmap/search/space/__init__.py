"""The mapspace with exact sizes, uniform draws, moves and vectors of numbers.

- `genome`: mappings as vectors of numbers, for samplers that know no others.
- `moves`: local moves between mappings.
- `space`: the mapspace with exact sizes and uniform draws.
"""
