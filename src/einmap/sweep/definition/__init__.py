"""A sweep file, read and checked.

- `definition`: a sweep, read and checked.
- `inputs`: input models of a sweep file.
- `points`: which points there are, and which of them are looked at.
- `read`: a sweep file or dictionary becomes a definition.
"""
