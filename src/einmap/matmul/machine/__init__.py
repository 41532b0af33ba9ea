"""Machines and data types of a plan.

- `data_types`: the number formats of the operands, and how many bits a value has.
- `machine`: the machine of a plan: memories, one for each worker, the links between them, and the compute units.
- `read_machine`: a machine from a YAML file, a shipped one by name, or a dictionary of the same form.
"""
