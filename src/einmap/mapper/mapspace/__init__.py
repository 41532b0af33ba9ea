"""Which mappings exist: dataplacements, tile shapes, uses of the fanouts.

- `dataplacement`: dataplacements of one Einsum: which memory keeps which tensor, and in which order storage nodes
  stand.
- `enumeration`: lists of choices that may be too long to write down: all of them where that is possible, else a
  fair part.
- `lanes`: uses of the fanouts: as arrays, as a tree, and which of them are never better than others.
- `latency_forms`: busy time of a component as the largest of a few linear forms of its reads and writes.
- `layout`: what tiles hold at single points of a lattice, without arrays over all of its points.
- `mapspace`: the mapspace of one Einsum on one architecture: which choices exist, and how many.
- `node_orders`: orders of storage nodes that are never better than others: two neighbours in a memory without a loop
  between them.
- `point_kernels`: the compiled part of what is asked about single points of a lattice: positions, tiles, rows of
  tables.
- `template`: templates of one dataplacement: where its loops, lanes and tolls stand.
- `tile_lattice`: the lattice of tile shapes: one tile shape for each rank variable, ordered by what may stand
  inside what.
- `recomputation`: which loops may stand above the outermost storage of a tensor: those that compute nothing twice.
"""
