"""Iteration spaces that are not boxes, spread over a mesh.

- `cuts`: the linear inequalities of an Einsum, in groups that speak of the same rank variables.
- `masks`: which points of a PE lie in the space.
- `points`: how many points the busiest PE evaluates, and a PE on average.
"""
