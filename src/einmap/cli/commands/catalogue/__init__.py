"""The commands that list what there is to write in files.

- `components`: `einmap components`: the models of hardware components.
- `examples`: `einmap examples`: the shipped specifications.
- `schema`: `einmap schema`: the JSON Schema of specification files, for editors.
"""
