"""Configs with random changes: a model, or an error at a place of the file; never anything else."""

import json
import random

import pytest
from tests.frontends.huggingface.configs import PUBLISHED

from einmap import SpecError, from_huggingface
from einmap.errors import EinmapError

VALUES = (
    None, True, 0, -1, 1, 3, 2**31, 2**63, 10**30, -2.5, 1e308, float("nan"), float("inf"), "", "x", "4096", "a" * 5000,
    [], {}, [1], [[]], {"a": 1}, {"": {"": {}}}, 128.0, "yarn", list(range(2000)),
)  # fmt: skip


def places(value, at=()):
    """Paths to all values within one, of long lists to the first ones."""
    if at:
        yield at
    if isinstance(value, dict | list):
        for key in [*value][:40] if isinstance(value, dict) else range(min(3, len(value))):
            yield from places(value[key], (*at, key))


def nested(depth):
    value = 1
    for level in range(depth):
        value = {"a": value} if level % 2 else [value]
    return value


def mutated(config, chance):
    """A copy with up to three changes."""
    made = json.loads(json.dumps(config))
    for _ in range(chance.choice((1, 1, 2, 3))):
        *above, key = chance.choice([*places(made)])
        owner = made
        for step in above:
            owner = owner[step]
        old = owner[key]
        match chance.randrange(7):
            case 0 if len(made) > 1:
                del owner[key]
            case 1 if isinstance(owner, dict):
                owner[str(key)[:-1] + chance.choice("sx_")] = owner.pop(key)
            case 2 if isinstance(old, int | float):
                owner[key] = chance.choice((-old, old * 2**20, old + 1, old - 1))
            case 3:
                owner[key] = str(old)
            case 4:
                owner[key] = {str(key): old} if chance.random() < 0.5 else [old]
            case 5:
                owner[key] = nested(chance.choice((9, 100, 900)))
            case _:
                owner[key] = chance.choice(VALUES)
    return made


@pytest.mark.parametrize("seed", range(8))
def test_a_changed_config_is_a_model_or_an_error_at_its_place(seed, tmp_path):
    chance, path = random.Random(seed), tmp_path / "config.json"
    for _ in range(25):
        config = mutated(PUBLISHED[chance.choice([*PUBLISHED])][0], chance)
        path.write_text(json.dumps(config))
        for given in (config, path):
            try:
                model = from_huggingface(given, batch=2, tokens=chance.choice((1, 8)))
            except EinmapError as error:
                assert given is config or str(error).startswith(str(path))
            else:
                assert model.n_parameters > 0
                assert model.spec.workload.einsums


def test_a_dictionary_that_holds_itself_is_refused():
    config = {**PUBLISHED["Llama-3.1-8B"][0]}
    config["id2label"] = config
    with pytest.raises(SpecError, match="nested more than 100 deep"):
        from_huggingface(config)
