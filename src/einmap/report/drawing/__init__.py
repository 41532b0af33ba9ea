"""Pictures as SVG text, without any other program or library.

Read `draw` (what to draw), then one of `looptree`, `arch`, `workload` (what each picture holds), `shapes` (boxes with
text that fits), the layouts `tidy` (trees) and `layered` (graphs), and `svg` (the text). `font` knows how wide text is,
`theme` the colours, `page` adds title and legend; `costs` has the annotations of a LoopTree.
"""
