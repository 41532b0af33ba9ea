"""Sweeps: what is to be said of their points, on the terminal and as JSON.

- `documents`: sweeps and points for JSON.
- `points`: what is told of points: the best ones, what each axis changes, failures; and how values are written.
- `terminal`: the terminal report of a sweep and of one point.
"""
