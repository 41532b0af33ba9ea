"""Long lists of names in messages."""

from einmap.visible import listed


def test_the_first_names_stand_for_many():
    names = [f"E{i}" for i in range(110)]
    assert listed(names) == "E0, E1, E2, E3, E4, E5, E6 and 103 more"
    assert listed(names[:7]) == "E0, E1, E2, E3, E4, E5, E6"
    assert listed(iter(names[:3]), most=1, between=" and ") == "E0 and 2 more"
