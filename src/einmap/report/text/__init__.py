"""Tools of all reports: numbers and phrases, titles and tables, the console, LoopTrees as text.

- `console`: the console on which reports are laid out: the one place where what specifications say becomes output.
- `formatting`: how numbers and quantities are written: units, percentages, bars, columns that share a unit.
- `layout`: tables as values, which terminal and HTML show alike, and how a terminal shows them.
- `loop_tree`: the LoopTree of a result as an indented loop nest, with trip counts and tile shapes beside it.
"""
