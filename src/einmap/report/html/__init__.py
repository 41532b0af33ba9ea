"""Reports as one HTML file, and their figures as files.

A report is a value: a Page of Sections with paragraphs, tables, figures and drawings. Read `parts`, then `page`, which
writes HTML (template, style and script lie in assets/), then one of the pages. A new report is a Page of sections that
stand in `sections`, and of its own.

- `charts`: kinds of plots that several sections use.
- `colours`: colours of a page, by name, in light and dark.
- `cost_page`: pages of one mapping and its cost: `evaluate`, `map`, `explain`.
- `distribution_page`: the page of `einmap run`.
- `figures`: the figures of a page as SVG and PNG files.
- `matmul_page`: the page of `einmap plan-matmul`.
- `notes`: notes of results as text.
- `page`: a page as HTML text.
- `parts`: what a report is made of, as plain values.
- `plan_page`: the page of `einmap plan`.
- `search_pages`: the pages of `einmap search`, `einmap census` and `einmap skislope`.
- `sections`: sections that several pages have.
- `sweep_page`: the page of `einmap sweep`.
- `vega`: plots by Vega-Lite, on a page and as files.
"""
