"""The analytical cost model: workload + architecture + mapping -> Cost; no search, no files.

Read `semantics`, `path`, `tiles`, `reuse`, `traffic`, `occupancy`, `energy`, then `evaluate`; `batch` runs
the same formulas over arrays of tile shapes.
"""
