"""Specifications and results in Jupyter notebooks.

- `register`: which types have an HTML display, told to IPython by their names; imports nothing else.
- `display`: what each of them shows: parts as those of HTML pages, made of drawings and frames.
"""
