"""How much of a result is checked, and checks of a sample of it.

- `extent`: whether the whole result is checked, a sample, or nothing, and why.
- `sample`: values of the outputs that are drawn to be checked, within bounds of time and memory.
"""
