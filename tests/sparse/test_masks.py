"""Masks from files: what they say, and what is refused."""

import io
import zipfile

import numpy as np
import pytest

from einmap.errors import SpecError
from einmap.sparse.masks import banded, check_size, read_mask

VALUES = np.array([[0, 1.5, 0], [-2, 0, 0]])


def test_arrays_and_matrix_market_say_the_same(tmp_path):
    np.save(tmp_path / "c.npy", VALUES)
    np.save(tmp_path / "f.npy", np.asfortranarray(VALUES))
    np.savez_compressed(tmp_path / "one.npz", values=VALUES)
    (tmp_path / "coordinate.mtx").write_text(
        "%%MatrixMarket matrix coordinate real general\n% text\n2 3 3\n1 2 1.5\n2 1 -2\n2 2 0\n"
    )
    (tmp_path / "pattern.mtx").write_text("%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 2\n2 1\n")
    (tmp_path / "array.mtx").write_text("%%MatrixMarket matrix array real general\n2 3\n0\n-2\n1.5\n0\n0\n0\n")
    files = sorted(tmp_path.iterdir())
    assert len(files) == 6
    for path in files:
        assert (read_mask(path, (2, 3)) == (VALUES != 0)).all(), path


def test_a_symmetric_matrix_is_read_on_both_sides(tmp_path):
    (tmp_path / "s.mtx").write_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 2\n2 1 1\n3 3 4\n")
    assert read_mask(tmp_path / "s.mtx", (3, 3)).astype(int).tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, 1]]


def npy_of(array, **options):
    file = io.BytesIO()
    np.save(file, array, **options)
    return file.getvalue()


MTX = b"%%MatrixMarket matrix coordinate real general\n"
BAD = {
    "pickled.npy": (npy_of(np.array([{}, 1], dtype=object), allow_pickle=True), "numbers were expected"),
    "text.npy": (npy_of(np.array(["a"])), "numbers were expected"),
    "shape.npy": (npy_of(np.zeros(4)), "has shape"),
    "short.npy": (npy_of(VALUES)[:-1], "ends early"),
    "none.npy": (b"", "cannot be read"),
    "other.npz": (b"PK", "cannot be read"),
    "first.mtx": (b"hello\n", "does not begin"),
    "sizes.mtx": (b"%%MatrixMarket matrix coordinate real general\n9 9 1\n1 1 1\n", "has shape"),
    "outside.mtx": (b"%%MatrixMarket matrix coordinate real general\n2 3 1\n3 1 1\n", "outside"),
    "fewer.mtx": (b"%%MatrixMarket matrix coordinate real general\n2 3 2\n1 1 1\n", "has 1 entry, 2 were"),
    "more.mtx": (MTX + b"2 3 1\n1 1 1\n2 2 2\n", "line 4: more than the 1 entry"),
    "more_values.mtx": (MTX.replace(b"coordinate", b"array") + b"2 3" + b"\n1" * 7, "line 9: more than the 6 values"),
    "diagonal.mtx": (MTX.replace(b"general", b"diagonal") + b"2 3 1\n1 1 1\n", "does not begin"),
    "negative.mtx": (MTX + b"2 3 -1\n", "line 2: sizes are whole numbers, found '-1'"),
    "two_sizes.mtx": (MTX + b"% text\n2 3\n1 1 1\n", "line 3: rows, columns and the number of entries were expected"),
    "half.mtx": (MTX + b"2 3 1\n1.5 1 1\n", "line 3: rows and columns are whole numbers, found '1.5'"),
    "no_value.mtx": (MTX + b"2 3 1\n\n1 1 one\n", "line 4: a number was expected, found 'one'"),
    "words.mtx": (b"%%MatrixMarket matrix coordinate real general\n2 3 1\na b c\n", "cannot be read"),
    "empty.mtx": (b"%%MatrixMarket matrix coordinate real general\n2 3 1\n1\n", "cannot be read"),
    "nan.npy": (npy_of(np.array([[0, 1, 0], [1, 0, np.nan]])), r"'nan.npy' holds NaN at \[1, 2\]"),
    "complex.npy": (npy_of(np.full((2, 3), complex(0, np.nan))), r"holds NaN at \[0, 0\]"),
    "nan.mtx": (b"%%MatrixMarket matrix coordinate real general\n2 3 1\n2 1 nan\n", r"holds NaN at \[1, 0\]"),
    "nan_array.mtx": (b"%%MatrixMarket matrix array real general\n2 3\n1\n1\n0\nNaN\n0\n0\n", r"holds NaN at \[1, 1\]"),
    "values.csv": (b"1,0\n", "a mask is in a file of"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_not_a_mask_is_refused(tmp_path, name):
    content, text = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(SpecError, match=text):
        read_mask(tmp_path / name, (2, 3))


def test_archives_of_several_or_of_large_arrays_are_refused(tmp_path):
    np.savez(tmp_path / "two.npz", a=VALUES, b=VALUES)
    with pytest.raises(SpecError, match="holds 2 arrays"):
        read_mask(tmp_path / "two.npz", (2, 3))
    np.savez(tmp_path / "scipy.npz", format=b"csr", data=VALUES, shape=VALUES.shape)  # as scipy.sparse.save_npz
    with pytest.raises(SpecError, match="holds 3 arrays") as found:
        read_mask(tmp_path / "scipy.npz", (2, 3))
    assert "mmwrite" in found.value.hint
    with zipfile.ZipFile(tmp_path / "bomb.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", npy_of(np.zeros((40, 1000, 1000), dtype=np.int8)))
    with pytest.raises(SpecError, match="has shape"):
        read_mask(tmp_path / "bomb.npz", (2, 3))
    with pytest.raises(SpecError, match="no file"):
        read_mask(tmp_path / "missing.npy", (2, 3))
    with pytest.raises(SpecError, match="too large"):
        check_size((10**5, 10**5))


def test_a_band_follows_the_diagonal():
    assert banded((3, 3), 1, 0).astype(int).tolist() == [[1, 0, 0], [1, 1, 0], [0, 1, 1]]
    assert banded((2, 4), 0, 1).astype(int).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1]]
    assert banded((2, 3, 3), 0, 0).sum() == 6
