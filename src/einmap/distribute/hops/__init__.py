"""Moves that lead from one placement of a tensor to another in one step.

- `collective`: sums, blocks joined, blocks cut.
- `every`: all moves between placements.
- `halo`: halos got from the next PE, or given up.
- `hop`: one move, and what it sends.
- `pairs`: moves of a plan that go from single PEs to single PEs: who sends to whom, and what.
- `part_of_mesh`: tensors that are sent from a part of the mesh, summed up there, or kept there only.
- `permute`: PEs that exchange whole blocks.
- `routes`: the links that messages between single PEs take, and what these carry.
- `shortest`: the cheapest way from one placement of a tensor to another.
"""
