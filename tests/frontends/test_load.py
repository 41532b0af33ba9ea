import pytest

from einmap.errors import ManyErrors, SpecError
from einmap.frontends.yaml.load import read_files, read_text
from einmap.spec.raw import to_python


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(**files):
        for name, text in files.items():
            (tmp_path / f"{name}.yaml").write_text(text)
        return tmp_path

    return write


def failure(*paths, **options):
    with pytest.raises(SpecError) as caught:
        read_files(*paths, **options)
    return caught.value


def test_files_are_joined_by_top_level_key(folder):
    folder(a="arch: {nodes: []}", w="workload: {einsums: []}")
    tree, notes = read_files("a.yaml", "w.yaml")
    assert to_python(tree) == {"arch": {"nodes": []}, "workload": {"einsums": []}}
    assert notes == ()
    place = tree.place_of("workload")
    assert place is not None
    assert str(place) == "w.yaml:1:1"


def test_paths_may_be_paths_patterns_and_lists(folder):
    base = folder(a="arch: 1", b="mapper: 2", c="model: 3")
    tree, _ = read_files([base / "a.yaml", "b.yaml"], str(base / "*.yaml"))
    assert to_python(tree) == {"arch": 1, "mapper": 2, "model": 3}


def test_a_file_reached_twice_is_read_once(folder):
    base = folder(a="arch: 1")
    (base / "link.yaml").symlink_to("a.yaml")
    _, notes = read_files("a.yaml", base / "a.yaml", "./*.yaml")
    assert notes == ()


def test_a_pattern_matches_files_only(folder):
    base = folder(a="arch: 1")
    (base / "sub.yaml").mkdir()
    assert to_python(read_files("*.yaml")[0]) == {"arch": 1}


def test_the_first_file_wins_and_a_note_says_so(folder):
    folder(a="arch: 1", b="\narch: 2")
    tree, notes = read_files("a.yaml", "b.yaml")
    assert to_python(tree) == {"arch": 1}
    assert [str(note) for note in notes] == [
        "b.yaml:2:1: the key 'arch' is given in a.yaml and in b.yaml; a.yaml is used"
    ]


def test_identical_values_in_two_files_are_silent(folder):
    folder(a="arch: {x: 1}", b="\narch:\n  x: 1")
    assert read_files("a.yaml", "b.yaml")[1] == ()


def test_keys_for_anchors_are_left_out():
    tree, _ = read_text("x-a: &a {size: 1}\n_b: 2\narch: {<<: *a}")
    assert to_python(tree) == {"arch": {"size": 1}}
    assert len(tree.key_at) == len(tree.items)


def test_a_specification_may_stand_below_the_key_spec():
    assert to_python(read_text("spec: {arch: 1}")[0]) == {"arch": 1}


def test_variables_reach_the_template(folder):
    folder(a="arch: {{ N }}")
    assert to_python(read_files("a.yaml", define={"N": 3})[0]) == {"arch": 3}
    assert to_python(read_text("arch: {{ N }}", define={"N": 3})[0]) == {"arch": 3}


def test_places_in_rendered_text_are_those_of_the_template():
    with pytest.raises(SpecError, match=r"s\.yaml:3:1: unknown top-level key 'foo'"):
        read_text("{% for i in range(3) %}\n{% endfor %}\nfoo: 1", "s.yaml")


def test_places_that_no_line_of_the_template_gives_are_marked():
    with pytest.raises(SpecError, match=r"s\.yaml \(rendered\):2:1: unknown top-level key 'foo'"):
        read_text("{% macro m() %}\nfoo: 1\n{% endmacro %}{{ m() }}", "s.yaml")


def test_a_template_variable_that_no_file_has_is_noted(folder):
    folder(a="arch: {{ N }}")
    notes = read_files("a.yaml", define={"N": 3, "M": 4})[1]
    assert [str(note) for note in notes] == ["M is defined, but no file has a template variable M"]


@pytest.mark.parametrize("name", ["a.yml", "a.yaml.jinja2", "a", "a.txt"])
def test_the_suffix_of_a_file_does_not_matter(folder, name):
    (folder() / name).write_text("arch: 1")
    assert read_files(name)[1] == ()


def test_top_key_chooses_one_section(folder):
    folder(a="arch: 1\nscratch: {x: 1}", b="workload: 2\n_anchors: 3")
    assert to_python(read_files("a.yaml", "b.yaml", top_key="workload")[0]) == {"workload": 2}


def test_top_key_may_hold_a_whole_specification(folder):
    folder(a="small: {arch: 1, x-a: 0}\nlarge: {arch: 2}\n_base: {model: 3}")
    assert to_python(read_files("a.yaml", top_key="small")[0]) == {"arch": 1}
    assert to_python(read_files("a.yaml", top_key="_base")[0]) == {"model": 3}


def test_several_top_keys_choose_several_sections(folder):
    folder(a="arch: 1\nodd: 2\nworkload: 3\n", b="model: 4\nsmall: {arch: 5}\n")
    tree, _ = read_files("a.yaml", "b.yaml", top_key=["workload", "model"])
    assert to_python(tree) == {"workload": 3, "model": 4}
    assert "'small' (top_key) is not a section" in str(failure("b.yaml", top_key=["small", "model"]))
    assert "top_key names no key" in str(failure("b.yaml", top_key=[]))


def test_unknown_keys_that_carry_an_anchor_are_left_out(folder):
    """Unless it is probably a valid key misspelt: one that is close to it, whose anchor nothing uses."""
    folder(a="sliced: &sliced {x: 1}\nvariables_all: &v {y: 2}\nmapper_parts: &u 3\narch: {<<: *sliced}\nmodel: *v\n")
    assert to_python(read_files("a.yaml")[0]) == {"arch": {"x": 1}, "model": {"y": 2}}
    folder(a="archs: &a {}", b="sliced: 1\narch: 2", c="copy: *x")
    assert "unknown top-level key 'archs'" in str(failure("a.yaml"))
    assert "or have the anchor at their value" in str(failure("b.yaml"))
    folder(a="part: &p {x: 1}", b="arch: 1\nuse: 2", c="spec: {model: &m 3, arch: *m}", d="x-a: &a 1\nother: *a")
    assert "unknown top-level key 'use'" in str(failure("a.yaml", "b.yaml"))
    assert "unknown top-level key 'other'" in str(failure("d.yaml"))
    assert to_python(read_files("a.yaml", "c.yaml")[0]) == {"model": 3, "arch": 3}


def test_a_wrong_top_key_names_the_key_and_the_files(folder):
    folder(a="small: {archs: 1}\nlist: [1]", b="model: 1")
    assert str(failure("a.yaml", "b.yaml", top_key="smal")) == (
        "the key 'smal' (top_key) is not in a.yaml, b.yaml\n  hint: did you mean 'small'? keys there: list, model, small"
    )
    assert "a.yaml:1:9: unknown top-level key 'archs'" in str(failure("a.yaml", top_key="small"))
    assert "below top_key 'list' must be a dictionary, but it is a list" in str(failure("a.yaml", top_key="list"))


def test_an_unknown_key_gets_the_closest_one():
    with pytest.raises(SpecError) as caught:
        read_text("arch: 1\nworkloads: 2", "s.yaml")
    assert str(caught.value).startswith("s.yaml:2:1: unknown top-level key 'workloads'")
    assert "did you mean 'workload'? valid keys: arch, cluster, config, distribution, mapper, mapping" in str(
        caught.value
    )


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "it is empty"),
        ("# comment", "it is empty"),
        ("- 1", "it is a list"),
        ("hello", "it is 'hello'"),
    ],
)
def test_the_top_level_must_be_a_dictionary(text, found):
    with pytest.raises(SpecError, match=f"s.yaml.*the top level must be a dictionary, but .*{found}"):
        read_text(text, "s.yaml")


def test_a_file_that_is_one_node_says_where_it_belongs(folder):
    folder(m="!Memory {name: M}", a="arch: {nodes: [!include m.yaml]}")
    assert str(failure("m.yaml")) == (
        "m.yaml:1:1: this file is a single node, !Memory, and not a specification with keys such as arch and workload\n"
        "  hint: include it in a specification, where the node belongs: nodes: [!include m.yaml, ...]"
    )
    assert to_python(read_files("a.yaml")[0]) == {"arch": {"nodes": [{"type": "Memory", "name": "M"}]}}


def test_a_missing_file_is_named_with_its_directory_and_close_names(folder):
    base = folder(arch="arch: 1", other="arch: 1")
    text = str(failure("arhc.yaml"))
    assert f"no file matches 'arhc.yaml', searched in {base}" in text
    assert "did you mean 'arch.yaml'? files there: arch.yaml, other.yaml" in text
    assert "no file matches 'x*.yaml'" in str(failure("x*.yaml"))
    assert "does not exist" in str(failure("sub/x.yaml"))


def test_all_problems_are_reported_together(folder):
    folder(a="foo: 1\nbar: 2", b="arch: *x")
    error = failure("a.yaml", "gone.yaml", "b.yaml")
    assert isinstance(error, ManyErrors)
    assert [problem.message.split()[0] for problem in error.problems] == ["no", "unknown", "unknown", "the"]


def test_odd_files_are_refused_clearly(folder):
    base = folder()
    (base / "latin.yaml").write_bytes(b"arch: 1\n# \xe9t\xe9\n")
    assert "latin.yaml:2: the file is not UTF-8 text: byte 0xE9" in str(failure("latin.yaml"))
    assert "this is a directory" in str(failure(base))
    assert "not a regular file" in str(failure("/dev/null"))
    assert "not a usable path" in str(failure("a\0b"))
    assert "no files are given" in str(failure())


def test_a_file_that_is_too_long_is_refused(folder):
    base = folder()
    with (base / "long.yaml").open("wb") as file:
        file.truncate(20_000_001)
    assert "more than 20,000,000" in str(failure("long.yaml"))


def test_a_byte_order_mark_is_accepted(folder):
    (folder() / "a.yaml").write_bytes(b"\xef\xbb\xbfarch: 1")
    assert to_python(read_files("a.yaml")[0]) == {"arch": 1}
