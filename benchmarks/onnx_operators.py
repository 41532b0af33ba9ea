"""What the onnx package carries for testing runtimes: its tests of single operators, and networks of the model zoo.

Each test is imported with all operands but the first as weights, and a negation behind each result, so that there is
something to compute. Values are compared with those that the test says. Exits with status 1 where values differ by more
than MOST of the largest one, but for those of NARROW, which round inside of the operator.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.backend.test.case.node import collect_testcases

import einmap

MOST = 5e-3
NARROW = ("bf16", "bfloat16", "to_FLOAT8", "to_FLOAT4", "INT4", "INT2", "edge_cases_fmod_0", "dynamicquantizelinear")
"""Parts of names of tests whose results are rounded to few bits, which values here are not, are infinite, or lie at
halves that rounding to the next integer decides by the last bit.
"""
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
TRUTH_VALUES = 9


def array(value: Any) -> np.ndarray:
    """The numbers of an operand or a result. Raises ValueError for sequences and texts."""
    found = numpy_helper.to_array(value) if isinstance(value, onnx.TensorProto) else np.asarray(value)
    if found.dtype.kind in "OUS":
        raise ValueError("no numbers")
    return found


def prepared(test: Any) -> tuple[onnx.ModelProto, dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The model of a test as it is imported, its values by name, and the results that are expected."""
    model, (operands, results) = onnx.ModelProto(), test.data_sets[0]
    model.CopyFrom(test.model)
    graph = model.graph
    values = {info.name: array(value) for info, value in zip(graph.input, operands, strict=False)}
    for info, value in list(zip(graph.input, operands, strict=False))[1:]:
        graph.initializer.append(numpy_helper.from_array(array(value), info.name))
    del graph.input[1:]
    expected = {}
    for output, result in zip(graph.output, results, strict=True):
        inner = f"{output.name}_inner"
        for node in graph.node:
            node.output[:] = [inner if name == output.name else name for name in node.output]
            node.input[:] = [inner if name == output.name else name for name in node.input]
        is_truth = output.type.tensor_type.elem_type == TRUTH_VALUES
        graph.node.append(helper.make_node("Identity" if is_truth else "Neg", [inner], [output.name]))
        wanted = array(result).astype(np.float64)
        expected[output.name] = wanted if is_truth else -wanted
    return model, values, expected


def outcome(test: Any, path: Path) -> str:
    """What becomes of a test: `equal`, `differs`, `barrier`, `refused`, or `no numbers` where it has texts."""
    try:
        model, values, expected = prepared(test)
    except (TypeError, ValueError, NotImplementedError):
        return "no numbers"
    onnx.save(model, path)
    try:
        imported = einmap.from_onnx(path)
        if imported.barriers:
            return "barrier"
        found = imported.run(values)
    except einmap.EinmapError:
        return "refused"
    for name, wanted in expected.items():
        largest = max(1.0, float(np.nanmax(np.abs(wanted), initial=0)))
        if found[name].shape != wanted.shape or not np.allclose(
            found[name].astype(np.float64), wanted, rtol=MOST, atol=MOST * largest, equal_nan=True
        ):
            return "differs"
    return "equal"


def main() -> int:
    """Print how many tests of operators end how, and a row for each network."""
    warnings.simplefilter("ignore")
    counts: Counter[str] = Counter()
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        for test in collect_testcases(None):
            if test.model is None or "_expanded" in test.name or not test.data_sets[0][0]:
                continue
            found = outcome(test, Path(folder) / "model.onnx")
            if found == "differs" and any(part in test.name for part in NARROW):
                found = "equal but for rounding to few bits"
            counts[found] += 1
            if found == "differs":
                wrong.append(test.name)
    total = counts.total() - counts["no numbers"]
    print(f"tests of operators: {total:,}, of which {', '.join(f'{n:,} {kind}' for kind, n in counts.most_common())}")
    for name in wrong:
        print(f"differs: {name}")
    print(f"\n{'':16}{'operators':>10}{'Einsums':>9}{'products':>16}{'import':>9}")
    for path in sorted(LIGHT.glob("*.onnx")):
        start = time.perf_counter()
        model = einmap.from_onnx(path, strict=True)
        seconds = time.perf_counter() - start
        n_operators, n_einsums = sum(model.operators.values()), len(model.spec.workload.einsums)
        name = path.stem.removeprefix("light_")
        print(f"{name:16}{n_operators:>10}{n_einsums:>9}{model.n_multiply_accumulates:>16,}{seconds:>7.2f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
