"""The command `einmap`.

- `commands`: one file for each command.
- `main`: the command line: one function for each command, errors as exit status 2.
- `completion`: what a shell offers for the value of a parameter.
- `html_report`: `--html` and `--figures`: a report as one HTML file, its figures as files.
- `registry`: the commands by name.
- `inputs`: what the commands take from the command line: files and names, template values, output paths.
- `command`: commands: examples at the end of the help, and options whose order across their names matters.
- `output`: what the commands print: reports and JSON on stdout, errors and notes on stderr.
- `progress_bar`: how a long search shows itself and is stopped: a progress bar on stderr, and Ctrl-C.
- `table_files`: `--csv`, `--parquet` and `--table`: the numbers of a result as files of tables, for every command that
  has some.
- `target`: the file that a command is to write: nothing of the user's is overwritten unasked, and an input never.
"""
