"""What results look like. Read `tables` (the numbers of a report as rows), `figures` (how one number is
written), `loop_tree` (the annotated loop nest), then `text` (the terminal report made of them).

For simulations: `comparison` (model against execution), `occupancy` (series over time), then what shows them:
`simulation` (terminal), `plots` (PNG), `events` (the event stream as a file); `optional` imports their libraries.

`drawing` draws mappings, architectures and workloads as SVG.
"""
