"""Which points there are, and which of them are looked at.

- `axes`: the axes of a sweep with their values.
- `grid`: the points of a sweep: all of them, those that a condition keeps, or a sample.
- `optimised`: points that Optuna proposes from what earlier ones cost.
- `proposals`: points one after the other, proposed by whoever knows better than the grid.
"""
