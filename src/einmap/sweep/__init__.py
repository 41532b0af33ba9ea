"""Sweeps: many architectures over many workloads, each point kept as soon as it is finished.

Read `read` (a file to a `definition`), `points` (which there are), `run` (how they are worked off), `store`.

- `actions`: what is done with each specification.
- `bases`: the specifications of a sweep before and after the values of a point are put in.
- `bounds`: what a point costs at least, before it is searched.
- `engines`: who works off the tasks.
- `front`: the Pareto front of points, as they come.
- `keys`: what a result depends on, as a key.
- `open_point`: points under way: their specifications, what is left to do, and what they cost at least.
- `outcome`: what became of one specification; a failure is an outcome too.
- `result`: what a point costs over all workloads.
- `run`: a running sweep: what the store lacks is computed, and every result is kept at once.
- `settings`: how a sweep is to be run.
- `sweep`: sweep(): the results of a sweep as they come.
- `store`: results in one SQLite file.
- `definition`: a sweep file, read and checked.
"""
