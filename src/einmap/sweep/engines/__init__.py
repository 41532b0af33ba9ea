"""Who works off the tasks of a sweep, any number at a time.

- `engine`: what every engine does, and the one without a process of its own.
- `pool`: processes of this machine, any of which may die.
"""
