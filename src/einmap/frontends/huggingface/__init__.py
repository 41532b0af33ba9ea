"""Language models of Hugging Face: `config.json` -> a cascade of Einsums of one step. No weights, no download.

- `description`: what a model is made of: blocks with their sizes, in which all architectures are told.
- `config`: the fields of a `config.json`: each checked with its place, the unknown ones refused by name.
- `families`: decoders, encoders and state-space models by `model_type`, one entry of a table for each.
- `multimodal`: the text model inside a model of text and images.
- `sizes`: descriptions from fields: attention, feed-forward layers, experts, layers by kind.
- `einsums`: the cascade while it is written: tensors, their parts, parameters and bits.
- `blocks`: norms, projections, feed-forward layers and experts as Einsums.
- `attention`: attention over cached and new positions, by heads or by latent rows.
- `state_space`: state-space layers: one step, or a prompt in chunks.
- `delta_rule`: linear attention by a gated delta rule: one step, or a prompt position by position.
- `model`: a whole model: its parts with their instances, parameters, products, bits of cache.
- `read`: the entrance, with a path or a dictionary; `einmap import --from huggingface`.
"""
