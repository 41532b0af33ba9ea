"""Why nothing fits, and the least changes that would help.

- `diagnosis`: why an Einsum has no mapping: what clashes, and the three smallest changes that would leave one.
- `oracle`: whether an Einsum has any mapping on an architecture: the first one found, or the proof of none.
- `remedy_steps`: single changes of an architecture, and the least one of a kind that leaves a mapping.
- `remedies`: all single changes of an architecture path that might leave a mapping: capacities, fanouts,
  constraints.
"""
