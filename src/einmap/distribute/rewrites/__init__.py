"""Plans whose steps run in turns: what is computed in one turn is sent, or was received, in another.

- `group`: Einsums of a plan that run together in turns.
- `overlap`: a reduce-scatter in chunks, each of which travels while the next one is computed.
- `pace`: in which blocks Einsums go in turns, and which block a PE takes when.
- `prefetch`: a tensor is moved while an Einsum before its reader runs.
- `rescale`: Einsums that turns add to those of a workload.
- `running`: Einsums in turns that read what is not complete yet, as the softmax does.
- `turns`: Einsums block by block, while blocks of what they read travel from PE to PE.
"""
