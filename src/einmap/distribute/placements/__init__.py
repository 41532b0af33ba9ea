"""How tensors and Einsums lie on a mesh of processing elements (PEs), and what a user asks for.

- `blocks`: in which blocks ranks and rank variables may be split.
- `indices`: how a split rank variable splits the ranks that it indexes.
- `mesh`: a mesh of processing elements (PEs) with named axes.
- `placement`: the part of a tensor that each PE holds.
- `request`: the request of a user: placements of tensors and loops of Einsums, checked against workload and mesh.
"""
