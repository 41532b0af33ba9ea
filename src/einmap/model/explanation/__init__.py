"""Why a mapping costs what it does: every number of an evaluation with what it is made of.

Read `values`, then `cases`, `counts`, `lifetimes`, `bottlenecks`, `changes`, and `explain`, which brings them together.

- `bottlenecks`: what sets the latency of each Einsum, where the energy goes, and how many lanes work.
- `cases`: the four cases of every storage node (docs/definitions.md, 14), and what is stationary.
- `causes`: of tensors with zeros which format and which saving leaves out how many actions.
- `changes`: what one change would help: the specification is changed, and the cost computed anew.
- `counts`: what every action count is made of: the flows of the exchanges, as the evaluation charges them.
- `energy_terms`: every joule of a result followed to a line of the specification or to a publication.
- `explain`: explain(): everything that can be said about why a mapping costs what it does.
- `filters`: a part of an explanation: some Einsums, tensors or components.
- `lifetimes`: from when to when each buffer lives in the LoopTree, and what lives at the fullest moment of each
  memory.
- `moves`: small changes of a LoopTree: a storage node above one more loop, a spatial loop with twice the lanes.
- `values`: what an explanation says, as frozen values.
"""
