"""Actions of a sweep on each specification.

- `perform`: maps, evaluates or plans; whatever goes wrong is the outcome.
- `planned`: the best distribution over a mesh.
"""
