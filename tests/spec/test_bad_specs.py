"""Bad workloads, architectures and expressions are refused, and the message names the cause.

Each row has a specification that is wrong in one place and words that its message must contain. Everything is
bound: nothing waits for a mapping to be evaluated.
"""

import pytest
from tests.nests import nest

from einmap import EinmapError, SpecError, evaluate, loads

ARCH = """
arch:
  nodes:
  - !Memory {name: Main, size: inf, component_class: Dummy}
  - !Memory {name: Buffer, size: 1024, component_class: Dummy}
  - !Compute {name: MAC, component_class: Dummy}
"""
BITS = "  bits_per_value: {All: 8}\n"


def everything(text):
    """Load a specification and bind all that can be bound."""
    spec = loads(text)
    bound = spec.bound
    return spec, bound


def placements(spec):
    """Evaluate what only a candidate mapping asks for: which tensors a holder keeps."""
    for bound in spec.bound.values():
        for leaf in bound.arch.leaves.values():
            placement = getattr(leaf, "placement", None)
            if placement is not None:
                placement.choices({})
                placement.order_allows({}, {})


def message(text):
    with pytest.raises(SpecError) as caught:
        placements(everything(text)[0])
    assert isinstance(caught.value, EinmapError)
    return str(caught.value)


def lacking(text, words):
    """Those of the words that the message about `text` does not contain."""
    said = message(text)
    return [word for word in words if word.lower() not in said.lower()]


def matmul(**keys):
    """A workload of one matmul; keys replace or add fields of `workload`."""
    fields = {"rank_sizes": "{M: 4, K: 4, N: 4}", "bits_per_value": "{All: 8}", "einsums": '["C[m,n]=A[m,k]*B[k,n]"]'}
    lines = [f"  {key}: {value}" for key, value in {**fields, **keys}.items() if value]
    return ARCH + "workload:\n" + "\n".join(lines) + "\n"


def test_the_plain_specification_is_good():
    placements(everything(matmul())[0])


def strings(*einsums):
    return "[" + ", ".join(f'"{einsum}"' for einsum in einsums) + "]"


@pytest.mark.parametrize(
    ("einsum", "words"),
    [
        pytest.param("C[m]", ["exactly one '='", "found 0", "C[m]"], id="17 no equals sign"),
        pytest.param("C[m]=A[m]=B[m]", ["exactly one '='", "found 2"], id="17 two equals signs"),
        pytest.param("C[M]=A[m]", ["'M'", "lower-case", "M: "], id="18 upper-case variable"),
        pytest.param("C[m: m]=A[m]", ["'m'", "upper-case"], id="19 lower-case rank"),
        pytest.param("C[m,m]=A[m]", ["'M'", "twice"], id="21 repeated rank"),
        pytest.param("C[m]=A[m]*A[m,k]", ["'A'", "ranks M and M, K", "'C'"], id="22 tensor of two kinds"),
        pytest.param("A[m]=A[m]", ["'A'", "both input and output", "rename"], id="23 input and output"),
        pytest.param("C[]=A[m]", ["empty index", "'C'"], id="24 no index"),
        pytest.param("C[m,]=A[m]", ["empty index", "'C'"], id="24 empty index"),
        pytest.param("C[m+k]=A[m]*B[k]", ["explicit rank", "m+k"], id="25 expression without rank"),
        pytest.param("C[m]=A[K: m*k]", ["affine", "m*k"], id="26 product of variables"),
        pytest.param("C[m]=A[K: floor(m/2)]", ["affine"], id="26 floor"),
        pytest.param("C[m]=A[K: m/2]", ["affine", "integer"], id="27 fraction"),
        pytest.param("C[m]=A[K: m mod 4]", ["affine"], id="27 modulo"),
    ],
)
def test_a_bad_einsum_string(einsum, words):
    assert lacking(matmul(einsums=strings(einsum)), words) == []


VERBOSE = "[{name: C, tensor_accesses: [{name: A, projection: %s}, {name: C, projection: [m], output: true}]}]"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        pytest.param({"rank_sizes": "{m: 4}"}, ["'m'", "upper-case"], id="19 lower-case rank size"),
        pytest.param({"einsums": VERBOSE % "{m: m}"}, ["'m'", "upper-case", "M"], id="19 lower-case rank of a projection"),
        pytest.param({"einsums": VERBOSE % "[M]"}, ["'M'", "lower-case"], id="18 upper-case variable of a projection"),
        pytest.param({"iteration_space_shape": "{M: 0<=m<4}"}, ["'M'", "rank variable"], id="20 key of a bound"),
        pytest.param(
            {"einsums": strings("C[m]=A[m,q]")}, ["'q'", "no bound", "rank_sizes.Q", "'C'"], id="28 unbounded variable"
        ),
        pytest.param({"rank_sizes": "{M: 0, K: 4, N: 4}"}, ["M", ">= 1", "0"], id="29 size zero"),
        pytest.param({"rank_sizes": "{M: -4, K: 4, N: 4}"}, ["M", ">= 1", "-4"], id="29 negative size"),
        pytest.param({"rank_sizes": "{M: 4.5, K: 4, N: 4}"}, ["M", "integer", "4.5"], id="30 fractional size"),
        pytest.param(
            {"rank_sizes": "{M: K//2, K: M*2, N: 4}"}, ["circ", "M", "K"], id="31 sizes that need each other"
        ),
        pytest.param(
            {"rank_sizes": "{M: 2*x, K: 4, N: 4}"}, ["'x'", "not defined", "rank_sizes.M"], id="32 undefined name"
        ),
        pytest.param({"iteration_space_shape": "{m: 0<=q<4}"}, ["'q'", "not a rank variable"], id="33 foreign variable"),
        pytest.param({"iteration_space_shape": "{m: 0<=m<<4}"}, ["<<"], id="34 shift in a bound"),
        pytest.param(
            {"rank_sizes": "{P: 4, W: 4}", "einsums": strings("O[p]=I[P: p, W: 7]")},
            ["empty", "'O'", "rank"],
            id="35 index outside its rank",
        ),
        pytest.param(
            {"einsums": strings("C[m]=A[m]", "D[m,n]=C[m,n]")}, ["'C'", "['M']", "['M', 'N']", "'D'"], id="36 ranks differ"
        ),
        pytest.param(
            {"einsums": "[{name: C, einsum: \"C[m]=A[m]\"}, {name: C, einsum: \"D[m]=A[m]\"}]"},
            ["'C'", "twice"],
            id="37 Einsum named twice",
        ),
        pytest.param({"einsums": "[{name: Total, einsum: \"C[m]=A[m]\"}]"}, ["'Total'", "reserved"], id="37 reserved name"),
        pytest.param(
            {"rank_sizes": "{M: 4, W: 8}", "einsums": strings("C[m]=A[m]", "D[W: m]=B[W: m]")},
            ["'m'", "4", "8", "'C'", "'D'"],
            id="38 bounds differ",
        ),
        pytest.param(
            {"einsums": strings("D[m]=C[m]", "C[m]=A[m]")}, ["'D'", "'C'", "before", "move"], id="39 reader before writer"
        ),
        pytest.param({"einsums": strings("C[m]=A[m]", "A[m]=C[m]")}, ["cycle", "C", "A"], id="40 cycle of two"),
        pytest.param(
            {"einsums": strings("C[m]=A[m]", "B[m]=C[m]", "A[m]=B[m]")}, ["cycle"], id="40 cycle of three"
        ),
        pytest.param(
            {"einsums": "[{name: E, einsum: \"C[m]=A[m]\"}, {name: F, einsum: \"C[m]=B[m]\"}]"},
            ["'C'", "written by", "'E'", "'F'"],
            id="41 two writers",
        ),
        pytest.param({"bits_per_value": "{A: 8, B: 8}"}, ["'C'", "bits_per_value", "{All: 8}"], id="42 bits missing"),
        pytest.param({"bits_per_value": "{All: 8, Inputs: 4}"}, ["overlap", "A, B", "Other"], id="43 keys overlap"),
        pytest.param(
            {"bits_per_value": "{Other: 8, Other & Inputs: 4}"}, ["`Other`", "once"], id="44 Other twice"
        ),
        pytest.param({"bits_per_value": "{All: -8}"}, ["> 0", "-8"], id="45 negative bits"),
        pytest.param({"bits_per_value": "{All: 0}"}, ["> 0", "0"], id="45 no bits"),
        pytest.param(
            {
                "bits_per_value": "",
                "einsums": "[{einsum: \"C[m]=A[m]\", tensor_accesses: [{name: A, bits_per_value: 8}, "
                "{name: C, bits_per_value: 8}]}, {einsum: \"D[m]=C[m]\", tensor_accesses: [{name: C, bits_per_value: 4}, "
                "{name: D, bits_per_value: 8}]}]",
            },
            ["'C'", "8", "4", "'D'"],
            id="46 bits differ",
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]*B[m]\", is_copy_operation: true}]"},
            ["exactly one input", "found 2", "'C'"],
            id="47 copy of two",
        ),
        pytest.param({"n_instances": "-2"}, ["n_instances", ">= 1", "-2"], id="48 negative instances"),
        pytest.param({"persistent_tensors": "foo"}, ["'foo'", "not defined", "persistent_tensors"], id="49 undefined set"),
        pytest.param(
            {
                "einsums": "[{einsum: \"C[m]=A[m]\", tensor_accesses: [{name: C, persistent: true}]}, \"D[m]=C[m]\"]",
            },
            ["'C'", "persistent", "'D'"],
            id="50 persistent in one place",
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", tensor_accesses: [{name: Q}]}]"},
            ["'Q'", "Einsum string"],
            id="51 unknown tensor",
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", tensor_accesses: [{name: A, projection: [m]}]}]"},
            ["projection", "'A'", "already set"],
            id="52 projection again",
        ),
        pytest.param({"einsums": "[{einsum: \"C[m]=A[m]\", renames: {input: Q}}]"}, ["'Q'", "not defined"], id="53 rename"),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]*B[m]\", renames: [{name: x, source: Inputs, expected_count: 1}]}]"},
            ["'C'", "expected 1", "A, B"],
            id="54 wrong count",
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", renames: {x: y, y: x}}]"}, ["'y'", "not defined"], id="55 renames in a circle"
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", renames: {All: A}}]"}, ["'All'", "reserved"], id="57 reserved rename"
        ),
        pytest.param({"foo": "1"}, ["unknown field 'foo'", "rank_sizes"], id="58 field of a workload"),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", nam: 1}]"}, ["unknown field 'nam'", "name"], id="58 field of an Einsum"
        ),
        pytest.param(
            {"einsums": VERBOSE.replace("name: A,", "name: A, ouput: true,") % "[m]"},
            ["unknown field 'ouput'", "did you mean 'output'"],
            id="58 field of an access",
        ),
        pytest.param(
            {"einsums": "[{einsum: \"C[m]=A[m]\", renames: [{name: x, sorce: A}]}]"},
            ["'sorce'", "source"],
            id="58 field of a rename",
        ),
        pytest.param({"einsums": "[]"}, ["no Einsums"], id="W11 no Einsums"),
        pytest.param({"shape": "{m: 0 <= m < 4}"}, ["`iteration_space_shape`"], id="older format"),
        pytest.param(
            {"einsums": "[{name: C, tensor_accesses: [{name: A, projection: [m]}]}]"}, ["'C'", "no output"], id="W no output"
        ),
    ],
)  # fmt: skip
def test_a_bad_workload(keys, words):
    assert lacking(matmul(**keys), words) == []


def test_a_rename_for_an_einsum_that_does_not_exist():
    text = matmul() + "renames: {einsums: [{name: ZZ, tensor_accesses: {x: A}}]}"
    assert lacking(text, ["no Einsum 'ZZ'", "C"]) == []


@pytest.mark.parametrize("bits", ["1.5", '"4*2"'])
def test_fractions_and_expressions_are_legal_bits(bits):
    spec, _ = everything(matmul(bits_per_value=f"{{All: {bits}}}"))
    assert spec.workload.einsums[0].accesses[0].bits_per_value == {"1.5": 1.5, '"4*2"': 8}[bits]


@pytest.mark.parametrize("size", ["4.0", "K//2", "ceil(K/2)"])
def test_sizes_that_are_integers_are_legal(size):
    spec, _ = everything(matmul(rank_sizes=f"{{M: {size}, K: 8, N: 4}}"))
    assert spec.workload.einsums[0].extents["m"] == 4


def test_all_problems_of_a_stage_are_reported_together():
    said = message(matmul(einsums=strings("C[m]", "D[M]=A[m]", "E[m,m]=A[m]")))
    assert "exactly one" in said
    assert "lower-case" in said
    assert "twice" in said


def test_an_error_says_the_line():
    said = message(matmul(rank_sizes="{M: 0, K: 4, N: 4}"))
    assert "<text>:8:" in said
    assert "workload.rank_sizes.M" in said


# architecture and expressions

WORKLOAD = """
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 8}
  einsums: [{name: E, einsum: "C[m,n]=A[m,k]*B[k,n]"}]
"""


def arch(*nodes, other=""):
    return "arch:\n  nodes:\n" + "".join(f"  - {node}\n" for node in nodes) + other + WORKLOAD


MAIN = "!Memory {name: Main, size: inf, component_class: Dummy}"
UNIT = "!Compute {name: MAC, component_class: Dummy}"


def buffer(fields="", size="1024"):
    return arch(MAIN, f"!Memory {{name: Buffer, size: {size}, component_class: Dummy, {fields}}}", UNIT)


def lanes(fields):
    return arch(MAIN, f"!Container {{name: Array, spatial: [{fields}]}}", UNIT)


def toll(fields):
    return arch(MAIN, f"!Toll {{name: Link, component_class: Dummy, {fields}}}", UNIT)


def priced(fields, actions="{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}"):
    return arch(MAIN, f"!Memory {{name: Buffer, size: 1, {fields}, actions: [{actions}]}}", UNIT)


LIMIT = "loop_bounds: [{expression: %s, operator: %s, value: 1}]"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(arch(MAIN, "!Computer {name: MAC}"), ["unknown", "!Computer", "did you mean 'Compute'"], id="59 unknown tag"),
        pytest.param(arch(MAIN, "{name: Buffer, size: 1}", UNIT), ["tag", "!Memory"], id="60 no tag"),
        pytest.param(buffer("sizzle: 1"), ["unknown field 'sizzle'", "did you mean 'size'"], id="61 unknown field"),
        pytest.param(toll("direction: up, size: 1"), ["'size'", "Toll"], id="62 size of a Toll"),
        pytest.param(arch(MAIN, "!Container {name: X, size: 1}", UNIT), ["'size'", "Container"], id="62 size of a Container"),
        pytest.param(arch("!Memory {name: Main, component_class: Dummy}", UNIT), ["'size'", "needs"], id="63 no size"),
        pytest.param(arch("!Memory {size: 1, component_class: Dummy}", UNIT), ["'name'", "needs"], id="63 no name"),
        pytest.param(arch(MAIN, MAIN, UNIT), ["'Main'", "twice", "<text>:3"], id="64 name used twice"),
        pytest.param(buffer(size="-1"), ["size", ">= 0", "-1", "Buffer"], id="65 negative size"),
        pytest.param(buffer(size="1024*foo"), ["'foo'", "not defined", "size", "Buffer"], id="66 undefined name"),
        pytest.param(buffer("area: size", size="area+7"), ["circ", "size", "area"], id="67 fields in a circle"),
        pytest.param(
            arch("!Memory {name: Main, size: Buffer.size*2, component_class: Dummy}", "!Memory {name: Buffer, size: 4, component_class: Dummy}", UNIT),
            ["Buffer", "above"],
            id="68 a component below",
        ),
        pytest.param(buffer(size="Inputs.bits_per_value"), ["exactly one", "A, B"], id="69 bits of two tensors"),
        pytest.param(
            buffer(size="weight.bits_per_value").replace("{name: E,", "{name: E, renames: {weight: Nothing},"),
            ["empty", "if x else 0"],
            id="70 bits of no tensor",
        ),
        pytest.param(buffer(size="a") + "variables: {a: b, b: a}", ["circ", "a", "b"], id="71 variables in a circle"),
        pytest.param(buffer(size="a") + "variables: {a: hello}", ["'hello'", "not defined", "quote"], id="72 text without quotes"),
        pytest.param(
            arch(MAIN, "!Memory {name: Buffer, size: global_x, component_class: Dummy}", UNIT, other="  variables: {global_x: 2}\n")
            + "variables: {global_x: 1}",
            ["global_x"],
            id="73 global name set again",
        ),
        pytest.param(lanes("{name: X, fanout: -2}"), ["fanout", ">= 1", "-2"], id="74 negative fanout"),
        pytest.param(lanes("{name: X, fanout: 0}"), ["fanout", ">= 1"], id="74 no fanout"),
        pytest.param(lanes("{name: X, fanout: 2.5}"), ["fanout", "integer", "2.5"], id="74 fractional fanout"),
        pytest.param(lanes("{name: X, fanout: 2}, {name: X, fanout: 2}"), ["'X'", "twice"], id="75 dimension twice"),
        pytest.param(lanes("{name: X, fanout: 2, min_usage: 5}"), ["min_usage", "between 0 and 1", "5"], id="76 min_usage"),
        pytest.param(lanes("{name: X, fanout: 4, usage_scale: 8}"), ["usage", "X", "1"], id="77 usage that can never fit"),
        pytest.param(
            lanes("{name: X, fanout: 4, " + LIMIT % ("m", '"!="') + "}"), ["'!='", "product<=", "<="], id="78 operator"
        ),
        pytest.param(lanes("{name: X, fanout: 4, " + LIMIT % ("qq", "==") + "}"), ["'qq'"], id="79 no rank variable"),
        pytest.param(
            lanes("{name: X, fanout: 4, " + LIMIT % ("Inputs", "==") + "}"),
            ["rank variables", ".rank_variables"],
            id="80 tensors for rank variables",
        ),
        pytest.param(lanes("{name: X, fanout: 4, reuse: m}"), ["tensors", "rank variables"], id="81 rank variables for tensors"),
        pytest.param(buffer("tensors: {keep: All | foo}"), ["'foo'", "not defined"], id="82 undefined set"),
        pytest.param(
            arch("!Memory {name: Main, size: inf, component_class: Dummy, tensors: {keep: ~Buffer}}", "!Memory {name: Buffer, size: 1, component_class: Dummy}", UNIT),
            ["Buffer", "above"],
            id="83 a holder below",
        ),
        pytest.param(
            buffer("tensors: {keep: All, tensor_order_options: [[A, A | C]]}"), ["overlap", "A"], id="84 sets overlap"
        ),
        pytest.param(buffer("tensors: {tensor_order_options: [A, B]}"), ["list"], id="84 no list of lists"),
        pytest.param(toll("direction: sideways"), ["'sideways'", "up_and_down", "down"], id="86 direction"),
        pytest.param(toll(""), ["direction", "needs"], id="86 no direction"),
        pytest.param(toll("direction: {A: up, B: down}"), ["C", "direction", "Other"], id="86 direction of some"),
        pytest.param(toll("direction: {All: up, B: down}"), ["B", "overlap"], id="86 direction given twice"),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, throughput: 1}, {name: write, energy: 1, throughput: 1}"),
            ["'read'", "'Buffer'", "energy", "component_class"],
            id="88 no energy",
        ),
        pytest.param(priced("area: 0"), ["leak_power", "Buffer"], id="88 no leak power"),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: 1}, {name: write, energy: 1, throughput: 1}"),
            ["'read'", "throughput", "Buffer"],
            id="88 no throughput",
        ),
        pytest.param(
            arch(MAIN, "!Memory {name: Buffer, size: 1, leak_power: 0}", UNIT), ["'read'", "'Buffer'", "energy"], id="88 no actions"
        ),
        pytest.param(
            buffer().replace("size: 1024, component_class: Dummy", "size: 1024, component_class: Foo"), ["'Foo'"], id="89 model"
        ),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: 1, latency: 1/0}, {name: write, energy: 1, throughput: 1}"),
            ["zero", "latency", "Buffer"],
            id="90 division by zero",
        ),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: 1, throughput: -1}, {name: write, energy: 1, throughput: 1}"),
            ["throughput", ">= 0", "-1"],
            id="91 negative throughput",
        ),
        pytest.param(priced("leak_power: 0, area: -1"), ["area", ">= 0"], id="91 negative area"),
        pytest.param(priced("leak_power: -1, area: 0"), ["leak_power", ">= 0"], id="91 negative leak power"),
        pytest.param(buffer("bits_per_action: -1"), ["bits_per_action", "0", "-1"], id="91 negative width"),
        pytest.param(buffer("bits_per_action: 0"), ["bits_per_action", "> 0"], id="91 no width"),
        pytest.param(buffer("actions_scale: -1"), ["actions_scale", ">= 0"], id="91 negative scale"),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: nan, throughput: 1}, {name: write, energy: 1, throughput: 1}"),
            ["energy", "nan"],
            id="92 not a number",
        ),
        pytest.param(
            priced("leak_power: 0", "{name: read, energy: 1, throughput: 1}, {name: read, energy: 1, throughput: 1}"),
            ["'read'", "twice"],
            id="93 action twice",
        ),
        pytest.param(
            arch(MAIN, "!Compute {name: MAC, leak_power: 0, actions: {compute: 1}}"), ["list", "actions"], id="94 actions"
        ),
        pytest.param(arch(MAIN, "!Container {name: X, spatial: {X: 2}}", UNIT), ["list", "spatial"], id="94 spatial"),
        pytest.param(
            buffer("latency_scale: 2, throughput_scale: 2"), ["only one", "latency_scale", "throughput_scale"], id="95 scales"
        ),
        pytest.param(
            buffer("actions: [{name: read, latency_scale: 2, throughput_scale: 2}]"), ["only one"], id="95 scales of an action"
        ),
        pytest.param(buffer("enabled: foo"), ["'foo'", "not defined", "enabled"], id="96 enabled"),
        pytest.param(buffer("enabled: 3"), ["enabled", "true"], id="96 enabled is not a number"),
        pytest.param(arch(MAIN), ["Compute"], id="98 no Compute"),
        pytest.param(arch(UNIT), ["Memory"], id="98 no Memory"),
        pytest.param(arch(MAIN, "!Fork {nodes: [!Memory {name: Side, size: 1, component_class: Dummy}]}", UNIT), ["Fork", "Compute"], id="fork"),
        pytest.param(arch(MAIN, "!Memory {name: M M, size: 1, component_class: Dummy}", UNIT), ["'M M'", "identifier"], id="name"),
        pytest.param(
            buffer("bits_per_value: {A: 4}, bits_per_value_scale: {A: 2}"), ["'A'", "bits_per_value_scale"], id="bits twice"
        ),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: 1, throughput: 2, latency: 2}, {name: write, energy: 1, throughput: 1}"),
            ["throughput", "latency", "disagree"],
            id="throughput and latency",
        ),
    ],
)  # fmt: skip
def test_a_bad_architecture(text, words):
    assert lacking(text, words) == []


def test_an_array_has_nodes():
    assert lacking(arch(MAIN, "!Array {name: A, nodes: []}", UNIT), ["needs a list of nodes"]) == []


def test_the_topology_of_a_network():
    network = "!Network {name: N, component_class: Dummy, topology: star}"
    assert lacking(arch(MAIN, network, UNIT), ["'star'", "mesh", "all_to_all"]) == []


def test_no_energy_is_needed_where_there_is_a_dummy_model():
    everything(buffer())


def test_a_negative_energy_is_legal_and_noted():
    text = priced("leak_power: 0", "{name: read, energy: -1, throughput: 1}, {name: write, energy: 1, throughput: 1}")
    spec, _ = everything(text)
    assert any("negative" in str(note) and "Buffer.read" in str(note) for note in spec.notes)


MAPPED = nest("Main: A B C / Buffer: A / m 1 / n 1 / k 1 / E @ MAC")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param(buffer("total_latency: Other.size"), ["total_latency", "Other"], id="97 another component"),
        pytest.param(buffer("total_latency: 0 - 1"), ["total_latency", "Buffer", ">= 0", "'E'"], id="97 negative"),
        pytest.param(buffer("total_latency: \"'text'\""), ["total_latency", "Buffer", "number"], id="97 text"),
        pytest.param(buffer("total_latency: nan"), ["total_latency", "Buffer"], id="97 not a number"),
        pytest.param(
            priced("leak_power: 0, area: 0", "{name: read, energy: 1, throughput: 0}, {name: write, energy: 1, throughput: 1}"),
            ["zero", "Buffer.read"],
            id="90 throughput zero, used",
        ),
    ],
)  # fmt: skip
def test_a_latency_that_cannot_be_is_refused_on_evaluation(text, words):
    with pytest.raises(SpecError) as caught:
        evaluate(loads((text.replace("size: 1,", "size: 1024,")) + MAPPED))
    assert [word for word in words if word.lower() not in str(caught.value).lower()] == []
