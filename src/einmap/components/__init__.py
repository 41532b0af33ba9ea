"""Energy, area and latency of hardware components, from published figures.

Read `base`, then `registry`, then a model.

- `base`: what a model takes and says, and models that are formulas.
- `object_model`: models that are Python objects or classes.
- `plausible`: ranges that catch slips of units.
- `reference_tables`: models from energy and area reference tables of Accelergy and Timeloop.
- `registry`: models by name; an estimate is made once for each distinct component.
- `tables`: models that are tables, and those read from CSV.
- `models`: energy, area and latency by class, from published figures.
- `installed`: models of installed packages.
"""
