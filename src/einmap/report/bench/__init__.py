"""The report of a workload that was run on the processor at hand.

- `benchmark`: the terminal report: times of the mapping's code and of libraries, beside those of the model.
"""
