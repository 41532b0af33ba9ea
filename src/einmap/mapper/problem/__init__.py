"""Problems of searches.

- `problem`: a workload with what is asked of its mapping, what is known of it, and what a search may take.
- `options`: the options of a search, checked: those of the specification, overridden by those of the call.
- `request`: what is asked of the search of one Einsum.
- `memory_limit`: how much memory the process has in use, and what a limit leaves to a search.
- `searchable`: whether branch and bound can search an Einsum.
"""
