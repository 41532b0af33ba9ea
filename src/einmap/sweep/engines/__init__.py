"""Who works off the tasks of a sweep, any number at a time.

- `dask_cluster`: workers of a Dask cluster.
- `engine`: what every engine does, and the one without a process of its own.
- `interrupts`: processes that Ctrl-C does not reach.
- `pool`: processes of this machine, any of which may die.
"""
