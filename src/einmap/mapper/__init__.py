"""Finding mappings: the mapspace of one Einsum, and a plain search of it.

Read `mapspace`, `dataplacement`, `spatial_choices`, `template`, `listing`, `factors`, `search`, `options`,
then `mapper`.
"""
