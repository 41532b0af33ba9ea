"""Cache-aware plans for one matrix product: how to block it, level by level of a memory hierarchy with workers.

Read `machine`, `problem` and `algorithms` first (what is planned, and what one level costs), then `space`, `plan` and
`joint` (the choices, and the search), `traffic` and `bounds` (what moves, and what must), `layout` and `to_mapping`.
"""
