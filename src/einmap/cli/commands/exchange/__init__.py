"""The commands for whole specifications and files of other tools.

- `dump`: `einmap dump`: files in, one specification out, in either dialect.
- `export`: `einmap export`: a workload, architecture and mapping in the format of another tool.
- `folder`: a folder that a command is to write.
- `formats`: the formats of other tools by name, and the modules that read and write them.
- `import_files`: `einmap import`: a model in ONNX, or files of another tool, as a specification.
- `summary`: what became of a model or of files, as tables.
"""
