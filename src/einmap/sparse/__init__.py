"""Sparse tensors: where values are nonzero, how formats store them, and what hardware saves.

Nothing here knows of mappings: tiles are boxes of indices. The model and the simulator ask for what is in them.

- `densities`: which values are nonzero: uniform, structured, even
- `known`: which are, position by position
- `intervals`: of many boxes the different intervals along each rank
- `kept`: answers for who asks again, up to a number of bytes
- `masks`: known positions from files, bands and generators
- `propagated`: zeros of what an Einsum writes, from those of its inputs
- `formats`: bits of metadata and values that a tile takes: coordinates, bitmasks, runs, offsets
- `blocks`: the same of formats with blocks, padding or dense tiles, of which boxes are parts
- `savings`: which reads, writes and operations are gated or skipped, and all of it in one value
"""
