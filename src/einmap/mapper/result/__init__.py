"""Results of searches.

- `outcome`: what a search comes to, the outcome of several together, and what may be claimed of it.
- `result`: what the mapper returns: the best mappings with their costs, what is proven, and how the search went.
- `result_cache`: outcomes that are kept on disk, by the content of everything they depend on.
"""
