"""Dataplacements as chains of segments, the form in which they are bounded and searched.

- `chain_template`: a dataplacement as a chain of steps, each a gap with temporal loops, then lanes, then one
  storage node.
- `given_planner`: the plans of a dataplacement that keep what is given: one for each alignment and variant of its
  gaps.
- `statistics`: what became of a mapspace: how much of it each pruning ruled out, how much was searched, and how
  long each step took.
- `groups`: what a path of the architecture is searched in: its tile shapes, and dataplacements that admit the same
  lanes.
"""
