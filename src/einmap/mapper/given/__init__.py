"""A partly given mapping as a constraint of the search.

- `alignment`: where the given nodes stand in a dataplacement: for every gap the given loops and free places in it.
- `lane_rule`: what is given for the lanes of one gap: which uses of the fanouts are allowed, with which tile shapes
  below them.
- `order`: the loops of a gap in the given order.
- `pattern`: what is given for one Einsum as a row of tokens, checked against Einsum and architecture.
- `read`: what the caller gives, as patterns by Einsum.
- `slots`: what is given for the loops of one gap, as conditions on the tile shapes before and after it.
"""
