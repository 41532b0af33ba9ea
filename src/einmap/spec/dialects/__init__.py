"""The older and the newer names of one format. Both are read as they are in `spec/binding/component_costs`.

- `dialect`: which of the two spellings in circulation an architecture is written in.
- `convert_expressions`: expressions from one dialect into the other: reciprocals, names of fields, names in
  `total_latency`.
- `rewrite`: a specification in the other dialect: the raw tree rewritten, everything else left as it is.
"""
