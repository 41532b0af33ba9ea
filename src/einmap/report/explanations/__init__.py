"""The terminal report of `einmap explain`.

- `explanation`: the terminal report of `einmap explain`: the four cases, what stays, what counts are made of, what
  would help.
- `explanation_summary`: how `einmap explain` begins: what limits the latency, where the energy goes, what moves most,
  what would help.
- `savings`: what formats and savings leave out of the actions that dense tensors would take.
"""
