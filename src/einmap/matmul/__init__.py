"""Cache-aware plans for one matrix product: how to block it, level by level of a memory hierarchy with workers.

- `algorithms`: the three algorithms of a level: which loop is innermost, what a level costs, sequentially and with
  workers.
- `compulsory_traffic`: how little a plan can move, and the closed form of the best block.
- `data_types`: the number formats of the operands, and how many bits a value has.
- `estimates`: seconds of a level's transfers for many choices at once, exact but for rounding to lines.
- `innermost`: the innermost level for many choices at once: what `algorithms.block_seconds` gives for each of them,
  in arrays.
- `joint`: all levels at once: the plan of least time among all choices of all levels, proven.
- `layout`: how the operands should lie in the main memory, so that transfers of blocks move full lines in long
  runs.
- `lower_bounds`: what can never be beaten below a level: the planner's problem without last, smaller blocks and
  idle workers.
- `machine`: the machine of a plan: memories, one for each worker, the links between them, and the compute units.
- `measured`: a plan that runs on this processor: a packed, vectorised kernel, and its measurement.
- `plan`: plan_matmul(): blocks for every level, jointly or level by level.
- `problem`: what is planned: one matrix product, its data types, and the rules of a plan.
- `read_machine`: a machine from a YAML file, a shipped one by name, or a dictionary of the same form.
- `result`: matmulPlan: blocks for every level of a machine, and everything that follows from them.
- `space`: the choices of one level: block sizes that are tried, and the blocks that fit.
- `to_mapping`: a plan as a LoopTree on an equivalent architecture: what the planner counts, `einmap evaluate`
  counts as well.
- `traffic`: what a plan moves between a level and the one above: exactly, value for value.
"""
