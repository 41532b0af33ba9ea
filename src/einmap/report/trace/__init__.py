"""An execution as a file of events.

- `events`: the event stream of an execution as a file: CSV, or Parquet through PyArrow.
- `event_lines`: events of the Trace Event format as lines of JSON, and the file around them.
- `values`: a run in time: when Einsums run, what components do and wait for, and how full memories are.
- `pipelined`: when tiles go through the stages of a Pipeline: each tile as long as any other, as the model takes them.
- `timing`: when things happen: the model's seconds, shared out to what the simulator counted.
- `perfetto`: that as a file in the Trace Event format, which ui.perfetto.dev and chrome://tracing open.
"""
