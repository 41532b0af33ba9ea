"""Seconds from counts: what components wait for, and what goes on at one time.

- `buffering`: memories with one buffer: what is exchanged with them, and what goes on inside of them, take turns.
- `latency`: seconds from action counts: a component is busy for the sum of its actions, or as its expression says.
- `overlap`: fused Einsums that overlap: a component that several use is busy for all of them.
- `stalls`: stalls tile by tile: how long an Einsum takes where tiles come in and go out beside the turns before and
  after them.
- `systolic`: fill and drain of systolic arrays: lanes that begin one step after another.
- `ways`: how long one value is on its way, where actions take time until their value is there.
"""
