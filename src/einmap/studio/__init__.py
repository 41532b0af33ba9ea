"""A studio: a mapping edited by hand, move by move, with what each move costs; in a browser or a notebook.

Read `messages`, what the page may ask, then `session`, which answers; nothing of either knows of the web.
`server` and `widget` carry messages to and from the page, which is the same for both (the files in `page/`).

- `assets`: the files of the page.
- `folders`: the folders that a studio may read from and write to.
- `lesson_answers`: numbers of the lessons with a question, and their right answers.
- `lesson_mappings`: mappings of the other lessons, their numbers and checks.
- `lessons`: guided pages, each a text, a mapping to begin with, a task and a check.
- `messages`: messages of the page, checked.
- `moves`: which rewrites apply to a node, and why the others do not.
- `play`: a run of a small mapping, step by step.
- `running`: a search beside the work, with its progress and the best so far; pins.
- `searching`: the process in which a search runs.
- `server`: the page and its messages on 127.0.0.1.
- `session`: the object behind a page: specification, mapping, undo and redo, pins, a running search.
- `texts`: differences, explanations, drawings, and files to keep.
- `view`: the state of a session as plain data for the page.
- `widget`: the page in a notebook.
"""
