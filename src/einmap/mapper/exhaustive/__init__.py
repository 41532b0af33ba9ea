"""Every mapping, one by one: the judge of the other searches, and the search of Einsums that they cannot handle.

- `brute_force`: a plain search of one Einsum's mapspace, the judge of the fast one: all of it where that is
  possible.
- `compulsory_traffic`: lower bounds that hold for every mapping of one Einsum: what cannot be avoided at all.
- `front`: keeping the best: one point for one objective, or the Pareto front of energy and latency.
"""
