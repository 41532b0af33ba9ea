"""Iteration spaces and how rank variables index tensors.

- `lattice_points`: how many integer points of a box satisfy linear inequalities, in closed form.
- `projection`: how rank variables index a tensor: one affine expression for each rank.
- `recurrence`: recurrences: Einsums that read what a later Einsum, or one of them, has written at an earlier index of a
  rank.
- `space`: the iteration space of an Einsum: integer points that satisfy its constraints, and their bounding box.
"""
