"""Moves that lead from one placement of a tensor to another in one step.

- `collective`: sums, blocks joined, blocks cut.
- `every`: all moves between placements.
- `hop`: one move, and what it sends.
- `pairs`: who sends to whom in a move of a plan that goes from single PEs to single PEs.
- `permute`: PEs that exchange whole blocks.
"""
