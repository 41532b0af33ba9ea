"""What memories that are several units of an array hold and send at least.

- `lanes`: the lanes that values reach over a network of an array, from the units in which they lie.
- `rates`: what tensors take in the units of an array's memories, for every use of the lanes at a time.
"""
