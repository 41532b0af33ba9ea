"""A plan that runs on this processor: a packed, vectorised kernel, and its measurement.

- `as_arch`: the processor at hand as an architecture file for the mapper and `emit --fast`.
- `kernel`: a plan carried out on one core: packed blocks, the loops of the plan's levels, tiles of C in registers.
- `latency`: seconds until a load is there, by a chain of loads.
- `measure`: what a plan reaches on the processor at hand, against plain loops, NumPy's BLAS and the roofline.
- `plain_loops`: the six plain loop orders of a matrix product, named from the outermost loop in: what a plan is
  measured against.
- `registers`: a tile of C in the vector registers: what the kernel of a plan does at every step, and what measures
  the peak.
- `this_cpu`: the processor at hand as a `Machine`: caches and cores as the operating system tells them, rates
  assumed or given.
"""
