"""An execution as a file of events.

- `events`: the event stream of an execution as a file: CSV, or Parquet through PyArrow.
- `event_lines`: events of the Trace Event format as lines of JSON, and the file around them.
- `timing`: when things happen: the model's seconds, shared out to what the simulator counted.
- `perfetto`: that as a file in the Trace Event format, which ui.perfetto.dev and chrome://tracing open.
"""
