"""Reports of tokens of a language model on a machine.

- `tables`: tables that terminal and page show alike, of one machine and of several side by side.
- `tokens`: the terminal report and the JSON document of `einmap tokens`.
"""
