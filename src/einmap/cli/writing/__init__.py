"""Files written by commands: nothing of the user's is overwritten unasked, and an input never.

- `html_report`: `--html` and `--figures`: a report as one HTML file, its figures as files.
- `results`: what the commands give: a report or JSON on stdout, and files of tables, pages and figures.
- `table_files`: `--csv`, `--parquet` and `--table`: the numbers of a result as files of tables.
- `target`: the file that a command is to write.
"""
