"""The steps of a plan in other forms: without names of buffers, as Einsums, as a file has them.

- `actions`: actions of a plan before its buffers have names: versions of a tensor are told by their
  placement alone.
- `naming`: actions of the search as a plan: buffers get names.
- `notation`: a plan as Einsums: what each PE computes and what it exchanges.
- `read_steps`: steps of a file as actions, each checked against what is there at that time.
- `write_steps`: actions as steps of a file.
"""
