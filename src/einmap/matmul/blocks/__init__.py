"""Blocks for every level: choices, bounds, and the joint search.

- `estimates`: seconds of a level's transfers for many choices at once, exact but for rounding to lines.
- `innermost`: the innermost level for many choices at once: what `algorithms.block_seconds` gives for each of them,
  in arrays.
- `joint`: all levels at once: the plan of least time among all choices of all levels, proven.
- `lower_bounds`: what can never be beaten below a level: the planner's problem without last, smaller blocks and
  idle workers.
- `space`: the choices of one level: block sizes that are tried, and the blocks that fit.
"""
