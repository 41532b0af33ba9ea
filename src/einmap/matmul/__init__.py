"""Cache-aware plans for one matrix product: how to block it, level by level of a memory hierarchy with workers.

- `algorithms`: the three algorithms of a level: which loop is innermost, what a level costs, sequentially and with
  workers.
- `compulsory_traffic`: how little a plan can move, and the closed form of the best block.
- `layout`: how the operands should lie in the main memory, so that transfers of blocks move full lines in long
  runs.
- `measured`: a plan that runs on this processor: a packed, vectorised kernel, and its measurement.
- `plan`: plan_matmul(): blocks for every level, jointly or level by level.
- `problem`: what is planned: one matrix product, its data types, and the rules of a plan.
- `result`: matmulPlan: blocks for every level of a machine, and everything that follows from them.
- `to_mapping`: a plan as a LoopTree on an equivalent architecture: what the planner counts, `einmap evaluate`
  counts as well.
- `traffic`: what a plan moves between a level and the one above: exactly, value for value.
- `machine`: machines and data types of a plan.
- `blocks`: blocks for every level: choices, bounds, and the joint search.
"""
