"""What a specification is: the raw tree, its checked shape, and the values bound for one Einsum.

Read `raw`, `schema`, `symbols`, `bind_workload`, `bind_arch`, `loop_tree`, then `spec`.
"""
