"""The commands that list what there is to write in files, and plug-ins.

- `components`: `einmap components`: the models of hardware components.
- `examples`: `einmap examples`: the shipped specifications.
- `machine`: `einmap machine`: the processor at hand as an architecture.
- `plugins`: `einmap plugins`: what installed packages add.
- `schema`: `einmap schema`: the JSON Schema of specification files, for editors.
"""
