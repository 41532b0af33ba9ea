"""What results look like.

- `comparison`: model against execution: every count, peak usage and number of steps, and the outputs against a
  plain einsum.
- `console`: the console on which reports are laid out: the one place where what specifications say becomes output.
- `cost_report`: the report for a terminal, in Rich: what limits latency, where energy goes, how full memories are.
- `difference_report`: the terminal report of `einmap diff`: what is different in structure, and what that does to
  the cost.
- `distribution`: the terminal report of `einmap run`: the partitioned Einsums, what they exchange, and whether
  results are right.
- `drawing`: pictures as SVG text, without any other program or library.
- `explanation`: the terminal report of `einmap explain`: the four cases, what stays, what counts are made of, what
  would help.
- `explanation_summary`: how `einmap explain` begins: what limits the latency, where the energy goes, what moves most,
  what would help.
- `formatting`: how numbers are written in a report: percentages, bars, columns that share a unit, phrases.
- `frames`: results as tidy tables: one row for each observation, units in the names of columns; pandas, CSV, Parquet.
- `fusion`: what a mapping fuses, and what that saves, for a terminal.
- `loop_tree`: the LoopTree of a result as an indented loop nest, with trip counts and tile shapes beside it.
- `matmul`: the terminal report of a matmul plan: levels, time, traffic against the bound, layouts, and the loop
  nest.
- `matmul_measured`: the terminal report of a plan that was run: rates beside those of plain loops, BLAS and the
  roofline.
- `mesh`: what plans over a mesh look like.
- `notebook`: specifications and results in Jupyter notebooks, as HTML.
- `occupancy`: occupancy over time as arrays: one series for each memory, and its peaks in equal intervals.
- `pipelines`: what is told of Pipelines: which stage is the slowest, and how long it takes to fill and to drain.
- `plots`: pictures, drawn with Matplotlib: how full each memory is over time.
- `provenance`: where the numbers of a result come from: each part of its energy with a line or a publication, and
  the models used.
- `rewrite_report`: what a change of the mapping does: energy, latency and space before and after.
- `search`: the reports of `einmap search`, `einmap census` and `einmap skislope`.
- `simulation`: the terminal report of `einmap simulate`: outputs, counts of both sides, occupancy over time.
- `sweeps`: sweeps: what is to be said of their points, on the terminal and as JSON.
- `report_rows`: the numbers of a report as rows, taken from a Cost.
- `trace`: an execution as a file of events: what happened in its order, and when by the model's seconds.
- `html`: reports as one HTML file.
- `layout`: titles and tables of reports on the terminal.
"""
