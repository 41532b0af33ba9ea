"""Stream's files (https://github.com/KULeuven-MICAS/stream): cores of ZigZag beside one another, and what they run.

- `cores`: hardware: equal cores below one outermost memory.
- `mapping`: which layers are spread over the cores.
- `read`: files of a network on several cores -> a specification.
"""
