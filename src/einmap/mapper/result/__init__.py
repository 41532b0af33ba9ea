"""What a search returns.

- `result`: the best mappings with their costs, what is proven of them, and how the search went.
- `verdict`: what a result may claim: whether it is proven, for which mappings, and how far it may be from the best.
- `result_cache`: results that are kept on disk, by the content of everything they depend on.
"""
