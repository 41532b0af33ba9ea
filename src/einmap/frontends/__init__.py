"""Files in: each sub-package turns one kind of file into the raw tree of a specification.

`yaml` is our own format; `files` writes text so that a crash leaves no half file behind;
`store` keeps texts under keys in a directory.

- `cascade`: what readers of models share: a cascade of Einsums from a program of tensor operations.
- `code`: functions and component models from Python files: run only when the user names the file.
- `code_models`: component models that are classes of Python files.
- `files`: files: text read whole, with clear errors.
- `foreign`: files of other tools: their values, each checked with its place; what is left out.
- `huggingface`: `config.json` of language models -> Einsums of one step; no weights.
- `jax`: functions of JAX: their equations -> Einsums.
- `onnx`: ONNX models: operators -> Einsums; weights are not loaded.
- `store`: a directory that keeps texts under keys, for several processes at a time, any of which may be killed.
- `accelforge`: a specification -> files for AccelForge.
- `scalesim`: SCALE-Sim's configurations and topologies -> a specification.
- `torch`: modules of PyTorch, and programs that it saves: operators of ATen -> those of `onnx`; weights are not loaded.
- `stream`: Stream's hardware of several cores, models and mappings -> a specification.
- `zigzag`: ZigZag's workloads, hardware and mappings -> a specification.
- `tflite`: models of TFLite (LiteRT), as nodes of ONNX.
- `timeloop`: Timeloop's problems, architectures and mappings -> a specification, and back.
- `yaml`: YAML specifications: text -> raw tree, and back.
"""
