"""Pictures as SVG text, without any other program or library.

Read `draw` (what to draw), then one of `looptree`, `arch`, `workload` (what each picture holds), `shapes` (boxes with
text that fits), the layouts `tidy` (trees) and `layered` (graphs), and `svg` (the text). `font` knows how wide text is,
`theme` the colours, `page` adds title and legend; `costs` has the annotations of a LoopTree.

- `arch`: an architecture as a tree: memories, fanouts, tolls and compute units, outermost on top.
- `costs`: what `--costs` writes into the nodes of a LoopTree: iterations, tile shapes, bits in use, shares of the
  energy.
- `draw`: what to draw of a specification, and the drawing: the one function behind `einmap show`.
- `font`: how wide text is, without asking a font: no box may be too small for its text, whatever font the reader
  has.
- `layered`: layout of a directed graph without cycles: nodes in layers, every edge from an upper layer to a lower
  one.
- `looptree`: a LoopTree as the field draws it: loops are boxes, storage nodes cylinders, computes ellipses, splits
  branches.
- `page`: a page: a laid out drawing with its title above and its legend at the side or below.
- `shapes`: shapes with text inside that fits, lines between them, and the picture made of both.
- `svg`: a picture as SVG text: the same text for the same picture, valid XML whatever its names hold.
- `theme`: colours: hues of Okabe and Ito and of Tol, which colour-blind readers tell apart, as tints behind the
  text.
- `tidy`: layout of trees: chains run straight down, branches stand side by side, as close as they fit.
- `workload`: a workload as a graph: tensors flow into Einsums and out of them, from top to bottom.
"""
