"""The steps of a plan as a file has them: the key `steps` of `distribution`.

A plan that is written so is read as it was, without any search.

- `read_steps`: steps of a file as actions, each checked against what is there at that time.
- `write_steps`: actions as steps of a file.
"""
