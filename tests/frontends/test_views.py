"""Views: any chain of reshapes, transposes, slices and broadcasts reads what NumPy's does."""

import warnings
from math import prod

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.program import Stored
from einmap.frontends.cascade.values import numbers_of
from einmap.frontends.cascade.views import LayoutError, digit, expanded, reshaped, sliced, transposed, view_of


def seen(view, array):
    """The values of a view, index by index."""
    sizes = [size for axis in view.axes for size in axis]
    names = [digit(i, j) for i, axis in enumerate(view.axes) for j in range(len(axis))]
    flat = [
        array[tuple(i.constant + sum(a * at[v] for v, a in i.terms) for i in view.index)]
        for places in np.ndindex(*sizes)
        for at in [dict(zip(names, places, strict=True))]
    ]
    return np.array(flat).reshape(view.shape)


@st.composite
def changes(draw):
    """A shape and a chain of changes, each with its view and its NumPy form."""
    shape = tuple(draw(st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=3)))
    array = np.arange(prod(shape)).reshape(shape)
    tensor = Stored("T", tuple(size for size in shape if size > 1) or (1,), 32)
    view = view_of(tensor, shape)
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(st.sampled_from(["reshape", "transpose", "slice", "expand"]))
        try:
            if kind == "reshape":
                cut = draw(st.sampled_from([n for n in range(1, array.size + 1) if array.size % n == 0]))
                new = (cut, array.size // cut)
                view, array = reshaped(view, new), array.reshape(new)
            elif kind == "transpose":
                order = draw(st.permutations(range(array.ndim)))
                view, array = transposed(view, order), array.transpose(order)
            elif kind == "slice":
                axis = draw(st.integers(0, array.ndim - 1))
                start = draw(st.integers(0, array.shape[axis] - 1))
                count = draw(st.integers(1, array.shape[axis] - start))
                view = sliced(view, axis, start, 1, count)
                array = array.take(range(start, start + count), axis=axis)
            elif array.size < 100:
                new = (2, *(3 if size == 1 else size for size in array.shape))
                view, array = expanded(view, new), np.broadcast_to(array, new)
        except LayoutError:
            continue
    return view, array, np.arange(prod(shape)).reshape(tensor.sizes)


@given(changes())
def test_a_view_reads_what_numpy_reads(case):
    view, expected, values = case
    assert view.shape == expected.shape
    assert (seen(view, values) == expected).all()


def test_joined_axes_are_one_index_of_digits():
    view = reshaped(view_of(Stored("T", (4, 6), 32), (4, 6)), (2, 12))
    assert view.axes == ((2,), (2, 6))
    assert [str(index) for index in view.index] == ["2*0.0 + 1.0", "1.1"]


def test_axes_cut_at_other_places_are_refused():
    with pytest.raises(LayoutError, match="4, 6"):
        reshaped(view_of(Stored("T", (4, 6), 32), (6, 4)[::-1]), (6, 4))


def test_a_signalling_nan_of_a_file_is_a_number_without_a_warning():
    array = np.array([0x7F800001, 0], np.uint32).view(np.float32)
    value = Builder().graph_input("x", (2,), 32, array, array=array)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = numbers_of(value)
    assert np.isnan(found[0])
    assert found[1] == 0
