"""What all reports share: numbers and phrases, titles and tables, the console, LoopTrees as text.

- `console`: the console on which reports are laid out: the one place where what specifications say becomes output.
- `formatting`: how numbers are written in a report: percentages, bars, columns that share a unit, phrases.
- `layout`: titles and tables of reports on the terminal.
- `loop_tree`: the LoopTree of a result as an indented loop nest, with trip counts and tile shapes beside it.
- `report_rows`: the numbers of a report as rows, taken from a Cost.
"""
