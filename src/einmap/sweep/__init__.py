"""Sweeps: many architectures over many workloads, each point kept as soon as it is finished.

Read `read` (a file to a `definition`), `points` (which there are), `run` (how they are worked off), `store`.

- `actions`: what is done with each specification.
- `bases`: the specifications of a sweep before and after the values of a point are put in.
- `bounds`: what a point costs at least, before it is searched.
- `definition`: a sweep, read and checked.
- `engines`: who works off the tasks.
- `front`: the Pareto front of points, as they come.
- `inputs`: input models of a sweep file.
- `keys`: what a result depends on, as a key.
- `open_point`: points under way: their specifications, what is left to do, and what they cost at least.
- `outcome`: what became of one specification; a failure is an outcome too.
- `points`: which points there are, and which of them are looked at.
- `read`: a sweep file or dictionary becomes a definition.
- `replay`: a point of a store as a specification with its mapping.
- `result`: what a point costs over all workloads.
- `run`: a running sweep: what the store lacks is computed, and every result is kept at once.
- `settings`: how a sweep is to be run.
- `store`: results in one SQLite file, for several sweeps and processes at a time.
- `sweep`: sweep(): the results of a sweep as they come.
- `checksums`: of the rows of a store: what a flipped bit changes is found, named and left out
- `tables`: the tables of a store, and how they are opened.
"""
