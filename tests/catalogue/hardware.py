"""Rows 59 to 100: architecture and expressions."""

from tests.catalogue.cases import BASE, error, legal, warning

DUMMY = "component_class: Dummy"
MAIN = f"    name: Main\n    size: inf\n    {DUMMY}\n"
BUFFER = f"    name: Buffer\n    size: width*depth\n    {DUMMY}\n"
SIZE = "    size: width*depth\n"
UNIT = f"  - !Compute\n    name: MAC\n    {DUMMY}\n"
KEEP = "      keep: Nothing\n      may_keep: All\n"
FANOUT = "    - name: X\n      fanout: 2\n"
B = 'arch.nodes[2] "Buffer"'
X = 'arch.nodes[1] "Array".spatial[0] "X"'
PRICED = BASE.replace(
    BUFFER,
    "    name: Buffer\n    size: 1024\n    leak_power: 0\n    actions:\n"
    "    - name: read\n      energy: 1\n      throughput: 1\n    - name: write\n      energy: 1\n      throughput: 1\n",
)
READ = "    - name: read\n      energy: 1\n      throughput: 1\n"


def size(text):
    """Another size of Buffer."""
    return [(SIZE, f"    size: {text}\n")]


def field(text):
    """More fields of Buffer."""
    return [(SIZE, SIZE + "".join(f"    {line}\n" for line in text.splitlines()))]


def dimension(text):
    """More fields of the dimension X."""
    return [(FANOUT, FANOUT + "".join(f"      {line}\n" for line in text.splitlines()))]


def tensors(text):
    return [(KEEP, "".join(f"      {line}\n" for line in text.splitlines()))]


def node(text):
    """A node before the Compute."""
    return [(UNIT, "".join(f"  {line}\n" for line in text.splitlines()) + UNIT)]


def read(text):
    """Another action `read` of the priced Buffer."""
    return [(READ, "".join(f"    {line}\n" for line in text.splitlines()))]


def bounds(expression, operator):
    return dimension(f"loop_bounds:\n- expression: {expression}\n  operator: {operator}\n  value: 1")


TOLL = f"- !Toll {{name: Link, {DUMMY}, %s}}"
LINK = 'arch.nodes[3] "Link"'
LATE = "total_latency: {}"

ROWS = [
    error(59, "unknown tag", [("  - !Compute\n", "  - !Computer\n")], ["unknown node tag", "!Computer", "did you mean 'Compute'", "Memory"], 'arch.nodes[3] "MAC"', on="- !Computer"),
    error(60, "no tag", node("- {name: Side, size: 1}"), ["tag", "!Memory"], 'arch.nodes[3] "Side"', on="name: Side"),
    error(61, "unknown field", field("sizzle: 1"), ["unknown field 'sizzle'", "did you mean 'size'"], f"{B}.sizzle", on="sizzle"),
    error(62, "size of a Toll", node(TOLL % "direction: up, size: 1"), ["'size'", "Toll"], f"{LINK}.size", on="Link"),
    error(62, "size of a Container", [("    name: Array\n", "    name: Array\n    size: 1\n")], ["'size'", "Container"], 'arch.nodes[1] "Array".size', on="size: 1"),
    error(63, "no size", [(SIZE, "")], ["Memory needs", "'size'"], B, on=False),
    error(63, "no name", [("    name: Buffer\n", "")], ["Memory needs", "'name'"], "arch.nodes[2]", on=False),
    error(64, "name used twice", [("    name: Buffer\n", "    name: Main\n")], ["'Main'", "twice", "spec.yaml:9"], 'arch.nodes[2] "Main"', on=False),
    error(65, "negative size", size("-1"), ["size", ">= 0", "found -1"], f"{B}.size"),
    error(66, "undefined name", size("1024*foo"), ["'foo'", "not defined"], f"{B}.size"),
    error(66, "near miss", size("1024*dept"), ["'dept'", "not defined", "did you mean 'depth'"], f"{B}.size"),
    error(67, "fields in a circle", [(SIZE, "    size: area+7\n    area: size\n")], ["circular", "size -> area -> size"], f"{B}.area", on="area: size"),
    error(67, "field of itself", size("size*2"), ["'size'", "not defined"], f"{B}.size"),
    error(68, "component below", [("    size: inf\n", "    size: Buffer.size*2\n")], ["Buffer", "only components above"], 'arch.nodes[0] "Main".size'),
    error(69, "bits of two tensors", size("Inputs.bits_per_value"), ["exactly one tensor", "{A, B}"], f"{B}.size"),
    error(
        70,
        "bits of no tensor",
        [(SIZE, "    size: weight.bits_per_value\n"), ("  - name: C\n", "  - name: C\n    renames: {weight: Nothing}\n")],
        ["empty set", "if x else 0"],
        f"{B}.size",
    ),
    error(71, "variables in a circle", [("  width: 8\n", "  width: a\n  a: b\n  b: a\n")], ["circular", "a -> b -> a"], path="variables.b", on="  b: a"),
    error(72, "text without quotes", [("  width: 8\n", "  width: hello\n")], ["'hello'", "not defined", "quote it if it is text"], "variables.width"),
    error(
        73,
        "global name set again",
        [("    depth: 128\n", "    depth: 128\n    global_x: 2\n"), ("  width: 8\n", "  width: 8\n  global_x: 1\n")],
        ["'global_x'", "already set"],
        "arch.variables.global_x",
        on="    global_x: 2",
    ),
    *(
        error(74, f"fanout {fanout}", [("      fanout: 2\n", f"      fanout: {fanout}\n")], ["fanout", *says, fanout], f"{X}.fanout")
        for fanout, says in (("-2", [">= 1"]), ("0", [">= 1"]), ("2.5", ["integer"]))
    ),
    error(75, "dimension twice", [(FANOUT, FANOUT + "    - name: X\n      fanout: 3\n")], ["'X'", "twice"], 'arch.nodes[1] "Array".spatial[1] "X"', on=False),
    error(76, "min_usage 5", dimension("min_usage: 5"), ["min_usage", "between 0 and 1", "5"], f"{X}.min_usage", on="min_usage"),
    error(76, "min_usage negative", dimension("min_usage: -0.5"), ["min_usage", "-0.5"], f"{X}.min_usage", on="min_usage"),
    error(77, "usage that never fits", dimension("usage_scale: 8"), ["'X'", "usage", "<= 1", "usage_scale 8", "fanout 2"], f"{X}.usage_scale", on="usage_scale"),
    error(78, "operator", bounds("m", '"!="'), ["'!='", "==", "product<="], f"{X}.loop_bounds[0].operator", on="operator"),
    error(79, "no rank variable", bounds("qq", '"=="'), ["'qq'", "not defined"], f"{X}.loop_bounds[0].expression", on="expression"),
    error(80, "tensors for rank variables", bounds("Inputs", '"=="'), ["rank variables", "{A, B}", ".rank_variables"], f"{X}.loop_bounds[0].expression", on="expression"),
    error(81, "rank variables for tensors", dimension("reuse: m"), ["expected tensors", "rank variables {m}"], f"{X}.reuse", on="reuse"),
    error(82, "undefined set", tensors("keep: All | foo"), ["'foo'", "not defined", "names"], f"{B}.tensors.keep"),
    error(83, "holder below", [(MAIN, MAIN + "    tensors: {keep: ~Buffer}\n")], ["Buffer", "only components above"], 'arch.nodes[0] "Main".tensors.keep', on="keep: ~Buffer"),
    error(
        84,
        "sets overlap",
        tensors("keep: All\ntensor_order_options:\n- [A, A | C]"),
        ["overlap", "{A}"],
        f"{B}.tensors.tensor_order_options[0][1]",
        on="[A, A | C]",
    ),
    error(84, "no list of lists", tensors("tensor_order_options: [A, B]"), ["a list", "'A'"], f"{B}.tensors.tensor_order_options[0]"),
    error(
        85,
        "tensor kept nowhere",
        [(MAIN, MAIN + "    tensors: {keep: B | C}\n"), (KEEP, "      keep: Nothing\n")],
        ["'A'", "'C'", "Main", "Buffer", "keep"],
        run="map",
        on=False,
    ),
    error(86, "direction", node(TOLL % "direction: sideways"), ["'sideways'", "down, up, up_and_down"], f"{LINK}.direction", on="Link"),
    error(86, "no direction", node(TOLL % "area: 0"), ["Toll needs", "'direction'"], LINK, on="Link"),
    error(86, "direction of some", node(TOLL % "direction: {A: up, B: down}"), ["direction", "{C}", "Other"], f"{LINK}.direction", on="Link"),
    error(
        87,
        "Toll as outermost holder",
        [("  - !Storage {component: Main, tensors: [A, B, C]}\n", "  - !Toll {component: Link, tensors: [A]}\n  - !Storage {component: Main, tensors: [A, B, C]}\n"), *node(TOLL % "direction: up")],
        ["Toll", "outermost holder", "'A'", "Memory above"],
        "mapping.nodes[0]",
    ),
    error(
        87,
        "back of a Toll",
        node(TOLL % "direction: up, tensors: {back: A}"),
        ["Toll", "outermost holder", "back"],
        f"{LINK}.tensors.back",
        on="Link",
    ),
    error(88, "no energy", read("- name: read\n  throughput: 1"), ["'read'", "'Buffer'", "energy", "component_class"], f'{B}.actions[0] "read"', on="- name: read", base=PRICED),
    error(88, "no throughput", read("- name: read\n  energy: 1"), ["'read'", "'Buffer'", "throughput"], f'{B}.actions[0] "read"', on="- name: read", base=PRICED),
    error(88, "action not given", [(READ, "")], ["'read'", "'Buffer'", "energy"], B, on=False, base=PRICED),
    error(88, "no leak_power", [("    leak_power: 0\n", "")], ["'Buffer'", "leak_power"], B, on=False, base=PRICED),
    error(89, "component model", [(BUFFER, BUFFER.replace("Dummy", "Dumy"))], ["'Dumy'", "'Buffer'", "did you mean 'Dummy'"], f"{B}.component_class", on="Dumy"),
    error(
        90,
        "throughput zero, used",
        read("- name: read\n  energy: 1\n  throughput: 0"),
        ["zero", "Buffer.read", "throughput"],
        f'{B}.actions[0] "read".throughput',
        on="throughput: 0",
        base=PRICED,
    ),
    error(90, "division by zero", read("- name: read\n  energy: 1\n  latency: 1/0"), ["division by zero", "1/0"], f'{B}.actions[0] "read".latency', on="latency: 1/0", base=PRICED),
    error(91, "negative throughput", read("- name: read\n  energy: 1\n  throughput: -1"), ["throughput", ">= 0", "-1"], f'{B}.actions[0] "read".throughput', on="throughput: -1", base=PRICED),
    error(91, "negative area", field("area: -1"), ["area", ">= 0", "-1"], f"{B}.area", on="area"),
    error(91, "negative leak power", field("leak_power: -1"), ["leak_power", ">= 0", "-1"], f"{B}.leak_power", on="leak_power"),
    error(91, "negative width", field("bits_per_action: -1"), ["bits_per_action", ">= 0", "-1"], f"{B}.bits_per_action", on="bits_per_action"),
    error(91, "no width", field("bits_per_action: 0"), ["bits_per_action", "> 0"], f"{B}.bits_per_action", on="bits_per_action"),
    error(91, "negative scale", field("area: 1\narea_scale: -1"), ["area_scale", ">= 0"], f"{B}.area_scale", on="area_scale"),
    *(
        error(91, f"infinite {name}", field(f"area: 1\n{name}: inf"), [name, "finite"], f"{B}.{name}", on=name)
        for name in ("area_scale", "leak_power_scale", "energy_scale", "latency_scale", "n_parallel_instances", "actions_scale")
    ),
    error(91, "area too large", field("area: 1e308\narea_scale: 1e9"), ["area", "too large"], f"{B}.area", on="area: 1e308"),
    warning(91, "negative energy", read("- name: read\n  energy: -1\n  throughput: 1"), ["energy", "Buffer.read", "negative"], f'{B}.actions[0] "read"', on="- name: read", base=PRICED),
    error(92, "energy nan", read("- name: read\n  energy: nan\n  throughput: 1"), ["energy", "a number", "nan"], f'{B}.actions[0] "read".energy', on="energy: nan", base=PRICED),
    error(92, "energy .nan", read("- name: read\n  energy: .nan\n  throughput: 1"), ["energy", "a number", "nan"], f'{B}.actions[0] "read".energy', on="energy: .nan", base=PRICED),
    error(93, "action twice", read("- {name: read, energy: 1, throughput: 2}\n- {name: read, energy: 1, throughput: 1}"), ["'read'", "'Buffer'", "twice"], f'{B}.actions[1] "read"', on="throughput: 1}", base=PRICED),
    error(94, "actions as a dictionary", field("actions: {read: 1}"), ["a list", "a dictionary"], f"{B}.actions", on="actions"),
    error(94, "spatial as a dictionary", [("    spatial:\n" + FANOUT, "    spatial: {X: 2}\n")], ["a list", "a dictionary"], 'arch.nodes[1] "Array".spatial'),
    error(95, "both scales", field("latency_scale: 2\nthroughput_scale: 2"), ["only one", "latency_scale", "throughput_scale"], f"{B}.latency_scale", on="latency_scale"),
    error(95, "both scales of an action", field("actions: [{name: read, latency_scale: 2, throughput_scale: 2}]"), ["only one"], f'{B}.actions[0] "read".latency_scale', on="actions"),
    error(96, "undefined name", field("enabled: foo"), ["'foo'", "not defined", "true or false"], f"{B}.enabled", on="enabled"),
    error(96, "number", field("enabled: 3"), ["enabled", "true or false", "3"], f"{B}.enabled", on="enabled"),
    error(96, "of a Compute", [(UNIT, UNIT + "    enabled: foo\n")], ["'foo'", "not defined"], 'arch.nodes[3] "MAC".enabled', on="enabled"),
    error(97, "another component", field("total_latency: Main.size"), ["'Main'", "total_latency", "another component", "read_actions"], f"{B}.total_latency", on="total_latency"),
    error(97, "negative", field("total_latency: 0 - 1"), ["total_latency", "'Buffer'", ">= 0", "'C'", "-1"], f"{B}.total_latency", on="total_latency"),
    error(97, "text", field("total_latency: \"'slow'\""), ["total_latency", "a number", "'slow'"], f"{B}.total_latency", on="total_latency"),
    error(97, "undefined name", field("total_latency: read_action"), ["'read_action'", "did you mean 'read_actions'"], f"{B}.total_latency", on="total_latency"),
    error(98, "no Compute", [(UNIT, "")], ["no Compute"], "arch.nodes", on=False),
    error(98, "no Memory", [("  - !Memory\n" + MAIN, ""), ("  - !Memory\n" + BUFFER + "    tensors:\n" + KEEP, "")], ["no Memory", "'MAC'"], "arch.nodes", on=False),
    error(98, "all computes disabled", [(UNIT, UNIT + "    enabled: len(All) == 2\n")], ["'C'", "no path", "disabled", "MAC"], "arch.nodes", on=False),
    error(99, "topology", node("- !Network {name: Net, topology: star}"), ["'star'", "mesh", "all_to_all"], 'arch.nodes[3] "Net".topology', on="star"),
    error(99, "Fork inside an Array", node("- !Array\n  name: Grid\n  nodes:\n  - !Fork\n    nodes: []"), ["Fork", "Array"], on=False),
    error(99, "Compute inside an Array", node(f"- !Array\n  name: Grid\n  nodes:\n  - !Compute {{name: ALU, {DUMMY}}}"), ["Compute", "Array"], on=False),
    error(
        100,
        "file of functions missing",
        BASE + "config:\n  expression_custom_functions: [nofile.py]\n",
        ["nofile.py", "not found"],
        "config.expression_custom_functions[0]",
        on="nofile.py",
    ),
    error(
        100,
        "file of functions not allowed",
        BASE + "config:\n  expression_custom_functions: [some.py]\n",
        ["config.expression_custom_functions", "code"],
        on="some.py",
        extra={"some.py": "raise SystemExit('run')\n"},
    ),
]  # fmt: skip

_ = legal
