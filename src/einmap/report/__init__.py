"""Reports of results.

- `bench`: the terminal report of `einmap bench`.
- `drawing`: pictures as SVG text, without any other program or library.
- `frames`: results as tidy tables: one row for each observation, units in the names of columns; pandas, CSV, Parquet.
- `mesh`: what plans over a mesh look like.
- `notebook`: specifications and results in Jupyter notebooks, as HTML.
- `search`: the reports of `einmap search`, `einmap census` and `einmap skislope`.
- `sweeps`: sweeps: what is to be said of their points, on the terminal and as JSON.
- `serving`: the terminal report and the JSON document of `einmap tokens`.
- `trace`: an execution as a file of events: what happened in its order, and when by the model's seconds.
- `html`: reports as one HTML file.
- `text`: what all reports share: numbers and phrases, titles and tables, the console, LoopTrees as text.
- `costs`: the terminal reports of costs, and of what changes them.
- `explanations`: the terminal report of `einmap explain`.
- `executions`: what is told of a mapping that was executed.
- `matmul`: the terminal reports of plans of a matrix product.
"""
