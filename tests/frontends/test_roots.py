"""What may be included beside the folders of the named files: parts above them, and the roots that the user names."""

from pathlib import Path

import pytest

from einmap.errors import SpecError
from einmap.frontends.yaml.load import read_files
from einmap.spec.raw import to_python

TREE = {
    "project/_renames.yaml": "renames: {einsums: []}",
    "project/_text.txt": "secret",
    "project/secret.yaml": "secret: 1",
    "project/.hidden/_part.yaml": "secret: 1",
    "project/models/small/_family.yaml": '{{ include_text("../../_renames.yaml") }}\n{{ add_to_path("../_kinds") }}\n'
    '{% set KIND = include("grouped.yaml", "") %}\nworkload: {{ KIND }}.workload\n',
    "project/models/small/model.yaml": '{% set N = 3 %}{% set M = include("_family.yaml", "") %}\n'
    "workload: {{ M }}.workload\nrenames: {{ M }}.renames\n",
    "project/models/_kinds/grouped.yaml": '{{ include_text("../../_renames.yaml") }}\n{{ include_text("_size.yaml") }}\n'
    "workload: {rank_sizes: {M: {{ N }}}}",
    "project/models/_kinds/_size.yaml": "# no more",
    "lib/shared/buffer.yaml": "size: 8",
}


@pytest.fixture
def tree(tmp_path):
    def write(files: dict[str, str]) -> Path:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)
        return tmp_path

    write(TREE)
    return write


def failure(path: Path, **options: object) -> str:
    with pytest.raises(SpecError) as caught:
        read_files(path, **options)  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("here", [".", "project/models/small", "/"])
def test_parts_in_the_folders_above_load_from_wherever_the_command_runs(tree, monkeypatch, here):
    base = tree({})
    monkeypatch.chdir(base / here)
    found = to_python(read_files(base / "project/models/small/model.yaml")[0])
    assert found == {"workload": {"rank_sizes": {"M": 3}}, "renames": {"einsums": []}}


@pytest.mark.parametrize("form", ["arch: !include {}", 'arch: {{{{ include("{}") }}}}', '{{% include "{}" %}}'])
@pytest.mark.parametrize(
    "path",
    [
        *("../../secret.yaml", "../../gone.yaml", "../../_text.txt", "../../.hidden/_part.yaml", "../../*.yaml"),
        *("../../**/_size.yaml", "../../_*.yaml", "../../../*/_renames.yaml"),
        *("/etc/passwd", "../../_link.yaml", "../../_folder/secret.yaml"),
    ],
)
def test_above_the_folders_nothing_but_parts_is_read(tree, form, path):
    base = tree({"project/models/small/a.yaml": form.format(path)})
    (base / "project/_link.yaml").symlink_to("secret.yaml")
    (base / "project/_folder").symlink_to(".")
    text = failure(base / "project/models/small/a.yaml")
    assert f" leads out of {base}/project/models/small" in text
    assert "--root DIR" in text
    assert "secret: 1" not in text


def test_no_part_is_taken_from_a_folder_where_all_may_write_nor_above_it(tree):
    base = tree({"project/models/small/a.yaml": "arch: !include ../../_part.yaml", "project/_part.yaml": "1"})
    assert to_python(read_files(base / "project/models/small/a.yaml")[0]) == {"arch": 1}
    (base / "project").chmod(0o777)
    assert "leads out of" in failure(base / "project/models/small/a.yaml")


def test_no_part_is_taken_from_the_home_folder_of_the_user_nor_above_it(tree, monkeypatch):
    base = tree({"project/models/small/a.yaml": "arch: !include ../../_part.yaml", "project/_part.yaml": "1"})
    for home in ("project", "project/others/user"):
        monkeypatch.setenv("HOME", str(base / home))
        assert "leads out of" in failure(base / "project/models/small/a.yaml")


def test_roots_add_folders_whose_files_may_be_included(tree):
    base = tree({"project/a.yaml": "arch: !include ../lib/shared/buffer.yaml"})
    assert "leads out of" in failure(base / "project/a.yaml")
    for root in (base / "lib", str(base), [base / "project/models", str(base / "lib/shared")]):
        assert to_python(read_files(base / "project/a.yaml", root=root)[0]) == {"arch": {"size": 8}}
    assert "leads out of" in failure(base / "project/a.yaml", root=base / "project/models")


def test_links_do_not_lead_out_of_a_root(tree):
    base = tree({"project/a.yaml": "arch: !include ../lib/link.yaml"})
    (base / "lib/link.yaml").symlink_to("../project/models/_kinds/_size.yaml")
    assert "arch" in to_python(read_files(base / "project/a.yaml", root=base / "lib")[0])
    (base / "lib/link.yaml").unlink()
    (base / "lib/link.yaml").symlink_to("/etc/passwd")
    assert "leads out of" in failure(base / "project/a.yaml", root=base / "lib")


def test_a_root_that_is_not_a_folder_is_an_error(tree):
    base = tree({})
    for root in (base / "gone", base / "project/secret.yaml", "a\0b"):
        assert "a root is a folder, found" in failure(base / "project/secret.yaml", root=root)
