"""Specifications and results in Jupyter notebooks.

- `register`: which types have an HTML display, told to IPython by their names; imports nothing else.
- `display`: the HTML of each of them, from the drawings and tables of the other reports.
- `html`: tables and sections as HTML, with every text escaped.
"""
