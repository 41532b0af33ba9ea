"""Results in one SQLite file.

- `checksums`: of the rows of a store: what a flipped bit changes is found, named and left out
- `replay`: a point of a store as a specification with its mapping.
- `store`: results in one SQLite file, for several sweeps and processes at a time.
- `tables`: the tables of a store, and how they are opened.
"""
