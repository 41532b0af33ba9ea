"""Paths: which options of the Einsums fit each other, what they cost together at least, and the best of them.

- `boundary_states`: boundary states: what earlier Einsums of a cascade leave to later ones.
- `options`: options: what other Einsums see of each Einsum of a cascade, by slots, so that Einsums that look the
  same have the same options.
- `state_graph`: the state graph of a cascade: which options of successive Einsums fit.
- `stage_edges`: the edges of a stage: which options fit behind which boundary states, and where they lead.
- `state_kernels`: the compiled part of stage edges.
- `path_kernels`: the compiled part of shortest paths.
- `envelope_kernels`: the compiled part of lower envelopes.
- `label_kernels`: the compiled part of label setting.
- `kernel_records`: records of arrays that the kernels of stage edges, shortest paths and label setting take.
- `inner_kernels`: kernels that other kernels call.
- `shortest_paths`: shortest paths through the state graph: what a whole cascade costs at least.
- `bound_tightening`: tighten lower bounds under a cutoff: what no cascade up to it can have is left out, and bounds
  rise.
- `lower_envelope`: lower envelopes: corners of what bounds at several weights leave, where products of costs are
  least; the least product, and the weight that may raise it.
- `first_floors`: least costs of cascades with each option by one metric, where a search has found the least of all: a
  search of what is as good by that metric need not look at the others.
- `label_setting`: label setting over the state graph: sums of costs, and the space that is needed at the same time.
"""
