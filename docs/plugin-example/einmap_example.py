"""One plug-in of each kind."""

from einmap.errors import At, SpecError
from einmap.frontends.foreign import Translation
from einmap.mapper.objective.metrics import AddedMetric


class Gemms:
    """The format `gemms`: lines `name m k n`, each a matrix product."""

    @staticmethod
    def read(files, *, bits, **_):
        """The workload of all lines; `bits` of a value. Raises SpecError with the line that is wrong."""
        shapes, einsums = [], []
        for file in files:
            for number, line in enumerate(file.read_text().splitlines(), 1):
                words = line.split()
                if len(words) != 4 or not all(word.isdecimal() for word in words[1:]):
                    raise SpecError(f"expected `name m k n`, found {line!r}", at=At(str(file), number))
                name, i = words[0], len(einsums)
                shapes += [f"    {d}{i}: 0 <= {d}{i} < {n}\n" for d, n in zip("mkn", words[1:], strict=True)]
                einsums.append(f'    - "{name}[m{i}, n{i}] = {name}_A[m{i}, k{i}] * {name}_B[k{i}, n{i}]"\n')
        text = ["workload:\n  iteration_space_shape:\n", *shapes, f"  bits_per_value: {{All: {bits or 8}}}\n"]
        return Translation({"workload.yaml": "".join([*text, "  einsums:\n", *einsums])})


class RippleAdder:
    """An adder of `width` full adders; costs are those of one full adder times their number."""

    def __init__(self, width: int):
        self.width = width
        self.area = 1e-12 * width
        self.leak_power = 1e-9 * width

    def compute(self):
        """Energy in J and latency in s of one sum."""
        return 2e-15 * self.width, 5e-11 * self.width


ED2P = AddedMetric("ed2p", "J*s^2", "energy-delay-squared", lambda cost: cost.energy * cost.latency**2)


class First:
    """The strategy `first`: the first mapping of each part of the mapspace."""

    def __init__(self, setup):
        self.space, self.begin = setup.problem.space, 0

    def ask(self, n):
        """The next points; none where there are no more."""
        begin, self.begin = self.begin, min(self.begin + n, len(self.space.sizes))
        return [(i, (0,) * len(self.space.subspace(i).digits)) for i in range(begin, self.begin)]

    def tell(self, points, values):
        """Nothing is learned."""


def outline(spec):
    """The language `outline`: the kinds of nodes above each Einsum."""
    paths = ([type(step.node).__name__ for step in path] for path in spec.mapping.paths)
    return "".join(" > ".join(names) + "\n" for names in paths)
