"""The commands of the search lab.

- `census`: `einmap census`: the shape of a mapspace.
- `learning`: the cost model that `einmap search` begins with, and the one that it saves.
- `remeasuring`: the best mappings of `einmap search`, executed.
- `search`: `einmap search`: strategies side by side on the mapspace of one Einsum.
- `search_report`: what `einmap search` prints.
- `bench`: `einmap bench`: a workload on the processor at hand, beside libraries and beside the model.
- `skislope`: `einmap skislope`: the least traffic to and from main memory by the capacity of a buffer.
- `studio`: `einmap studio`: a mapping edited by hand in the browser.
"""
