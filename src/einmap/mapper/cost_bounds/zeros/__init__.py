"""Least costs of mappings of one Einsum whose tensors have zeros.

- `left_open`: tables of zeros where formats are left open: the least over those that are left.
- `looking`: tensors whose zeros savings look at on one path, and what is known of costs with them.
- `path`: one path of the architecture for the search of an Einsum whose tensors have zeros.
- `rates`: least cost of a storage node whose tensors have zeros, for every use of the lanes at a time.
- `tiles`: tiles of formats with blocks or padding, by which what parts of them take is known.
- `windows`: chances at places further out, by which what is paid further in is known.
"""
