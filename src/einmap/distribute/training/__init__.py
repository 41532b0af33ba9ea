"""Plans of training steps: how devices are divided, what is kept, what is computed again, and what that costs.

- `backward`: layers with their backward pass, and what an update touches.
- `bounds`: lower bounds of plans.
- `cuts`: layers cut into stages.
- `document`: a plan as YAML.
- `held`: bytes that a device holds, and collectives for gradients and weights.
- `layer`: a layer on the devices of one stage: seconds, collectives, what it holds.
- `products`: costs of products that read narrower values than a layer's tensors have.
- `machine`: devices of a plan on the axes of a cluster.
- `model`: a model that is trained: layers as Einsums, and the samples of a step.
- `plan`: a plan of a training step as data.
- `rules`: how the Einsums of a layer may be split.
- `search`: best_training_plan(): the best plan, and the best of each kind.
- `stage`: the layers of a stage, and which collectives hide behind its passes.
- `step`: training_cost(): seconds and bytes of a step by a plan.
- `unequal`: plans whose stages have sub-meshes of different sizes.
"""
