"""Finding mappings: the mapspace of one Einsum, and a plain search of it.

Read `mapspace`, `dataplacement`, `template`, `factors`, `search`, then `mapper`.
"""
