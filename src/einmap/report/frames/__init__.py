"""Results as tidy tables: one row for each observation, one column for each quantity, its unit in the name.

- `frame`: a table as a value, and how one is made of a result.
- `kinds`: every kind of result with its tables: the one place that all the others ask.
- `benchmarks`: tables of workloads that were run on the processor at hand.
- `costs`: tables of costs, searches and differences.
- `executions`: tables of simulations.
- `explanations`: tables of explanations.
- `models`: tables of language models.
- `pipelines`: tables of schedules of a pipeline, as they run.
- `plans`: tables of distribution plans and their collectives.
- `products`: tables of plans of one matrix product.
- `sweeps`: tables of the points of a sweep.
- `searches`: tables of search strategies, of a census of a mapspace and of a ski slope.
- `shown`: a frame as a table of texts, which terminal, pages and notebooks show.
- `training`: tables of the best plan of a training step.
- `write`: a table as a pandas DataFrame, a CSV file or a Parquet file.
"""
