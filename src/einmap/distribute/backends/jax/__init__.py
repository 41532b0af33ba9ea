"""The engine on JAX: real collectives on a device mesh, in one or several processes and hosts.

- `read_hlo`: the collectives of a compiled program, from the text of its HLO
  (`jax.stages.Compiled.as_text`).
- `encoding`: plans as JSON documents: how a process gets one without unpickling anything.
- `engine`: the engine `jax`: plans on real devices, with real collectives (`jax.shard_map` over a device mesh).
- `lower_plan`: a plan as one JAX program: `jax.shard_map` over a device mesh, every step by the operation of JAX that
  it names.
- `read_stablehlo`: the collectives of a lowered program, with loops multiplied out.
- `messages`: messages between a parent and its processes: one JSON document and named arrays, over a pipe.
- `processes`: processes that work together on one request, and a parent that never waits for them in vain.
- `server`: what a process of the `jax` engine does for its parent: lower and run plans on the devices of JAX.
- `worker`: a process that `processes.Processes` starts: it answers requests until their stream ends, which also
  ends it.
"""
