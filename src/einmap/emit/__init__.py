"""Loop nests as code with explicit data movement, derived from a mapping.

Read `program` (the small language that is printed), then `lower` (a Spec becomes a Program), then the printers
`pseudo`, `python` and `c`; `emit` is the entrance.
"""
