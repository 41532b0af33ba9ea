"""What goes between a parent and its processes: data, and nothing that could run."""

import io
import json
import struct

import numpy as np
import pytest
from tests.distribute.drawn_plans import draw

from einmap.distribute.backends.jax.encoding import decode_plan, encode
from einmap.distribute.backends.jax.messages import Message, read_message, write_message


def through_a_pipe(message):
    stream = io.BytesIO()
    write_message(stream, message)
    stream.seek(0)
    return read_message(stream), stream


def framed(head, body=b""):
    text = json.dumps(head).encode()
    return io.BytesIO(struct.pack(">Q", len(text)) + text + body)


def test_a_plan_arrives_as_it_was():
    for seed in range(40):
        plan = draw(seed).plan
        found, _ = through_a_pipe(Message({"plan": encode(plan)}))
        assert decode_plan(found.document["plan"]) == plan


def test_arrays_arrive_with_their_types_and_shapes_in_any_order_of_memory():
    given = {"F": np.asfortranarray(np.arange(6.0).reshape(2, 3)), "slice": np.arange(10, dtype=np.float32)[::2]}
    found, rest = through_a_pipe(Message({}, given))
    assert rest.read() == b""
    for name, values in given.items():
        assert found.arrays[name].dtype == values.dtype
        assert np.array_equal(found.arrays[name], values)


def test_a_stream_that_ends_in_the_middle_is_at_its_end():
    _, stream = through_a_pipe(Message({"a": 1}, {"A": np.ones(100)}))
    for length in (0, 3, 12, 200):
        with pytest.raises(EOFError):
            read_message(io.BytesIO(stream.getvalue()[:length]))


def test_objects_are_no_arrays():
    with pytest.raises(ValueError, match="not a message"):
        read_message(framed({"document": {}, "arrays": [["A", "|O", [1]]]}, b"x" * 8))
    with pytest.raises(ValueError, match="not a message"):
        read_message(io.BytesIO(struct.pack(">Q", 2**40)))


def test_only_parts_of_plans_are_encoded_and_decoded():
    with pytest.raises(TypeError, match="a plan holds no object"):
        encode(object())
    with pytest.raises(KeyError):
        decode_plan({"Popen": [["ls"]]})
