"""The command `einmap`.

- `commands`: one file for each command.
- `main`: the command line: one function for each command, errors as exit status 2.
- `completion`: what a shell offers for the value of a parameter.
- `registry`: the commands by name.
- `inputs`: what the commands take from the command line: files and names, template values.
- `options`: options in groups: a class whose fields are options, which commands take as one parameter.
- `command`: commands: examples at the end of the help, and options whose order across their names matters.
- `output`: what the commands print: reports and JSON on stdout, errors and notes on stderr.
- `progress_bar`: how a long search shows itself and is stopped: a progress bar on stderr, and Ctrl-C.
- `writing`: what the commands write: nothing of the user's is overwritten unasked, and an input never.
"""
