"""Energy, area and latency of hardware components, from published figures.

Read `base`, then `registry`.

- `base`: what a model takes and says, and models that are formulas.
- `registry`: models by name; an estimate is made once for each distinct component.
"""
