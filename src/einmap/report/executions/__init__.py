"""Reports of mappings that were executed.

- `comparison`: model against execution: every count, peak usage and number of steps, and the outputs against a
  plain einsum.
- `occupancy`: occupancy over time as arrays: one series for each memory, and its peaks in equal intervals.
- `plots`: pictures, drawn with Matplotlib: how full each memory is over time.
- `simulation`: the terminal report of `einmap simulate`: outputs, counts of both sides, occupancy over time.
"""
