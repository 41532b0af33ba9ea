"""Reports of tokens of a language model on a machine.

- `tokens`: the terminal report and the JSON document of `einmap tokens`.
"""
