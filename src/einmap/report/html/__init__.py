"""Reports as one HTML file, and their figures as files.

A report is a value: a Page of Sections with paragraphs, tables, figures and drawings. Read `parts`, then `page`, which
writes HTML (template, style and script lie in assets/), then one of the pages. A new report is a Page of sections that
stand in `sections`, and of its own.

- `charts`: kinds of plots that several sections use.
- `colours`: colours of a page, by name, in light and dark.
- `figures`: the figures of a page as SVG and PNG files.
- `page`: a page as HTML text.
- `parts`: what a report is made of, as plain values.
- `sections`: sections that several pages have.
- `vega`: plots by Vega-Lite, on a page and as files.
- `pages`: the pages of commands, each made of sections.
"""
