"""Hosts that meet: what differs is told on all of them. The hosts are threads here; no JAX is started."""

import errno
import os
import re
import socket
import threading
from dataclasses import replace

import numpy as np
import pytest

from einmap.distribute.backends.hosts import facts as facts_module
from einmap.distribute.backends.hosts import guest as guest_module
from einmap.distribute.backends.hosts import host_zero
from einmap.distribute.backends.hosts.address import Address
from einmap.distribute.backends.hosts.facts import Facts, differences, facts_of
from einmap.distribute.backends.hosts.guest import meet
from einmap.distribute.backends.hosts.lines import MAX_LINE, Connection, StrangerError
from einmap.distribute.backends.hosts.meeting import Seat
from einmap.distribute.backends.jax.encoding import encode
from einmap.distribute.derive import distribute_workload
from einmap.einsum import numeric
from einmap.errors import EinmapError, EngineError, SpecError
from einmap.spec.spec import Spec

LONG = 60.0
SAME = Facts(((("mesh", "x=4"),), ()))


@pytest.fixture
def address():
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Address("127.0.0.1", port)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr(guest_module, "GREETING", 0.3)
    monkeypatch.setattr(guest_module, "PAUSE", 0.01)
    monkeypatch.setattr(host_zero, "STRAGGLING", 0.2)


def together(address, *hosts, limit=LONG):
    """What each host gets: the text of an error, or "agreed". `hosts`: (number, how many, facts)."""
    found = [""] * len(hosts)

    def come(i, host, count, facts):
        meeting = None
        try:
            meeting = meet(Seat(host, count, address, limit))
            meeting.agree(facts, LONG)
            meeting.agree(facts, LONG)  # the connections stay
            found[i] = "agreed"
        except EinmapError as error:
            found[i] = str(error)
        finally:
            if meeting is not None:
                meeting.close()

    threads = [threading.Thread(target=come, args=(i, *host)) for i, host in enumerate(hosts)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def saying(**facts):
    return Facts((tuple(facts.items()), ()))


def test_hosts_that_say_the_same_agree_again_and_again(address):
    assert together(address, *((host, 3, SAME) for host in (2, 0, 1))) == ["agreed"] * 3


def test_all_that_differs_is_told_on_all_hosts(address):
    said = together(address, (0, 3, SAME), (1, 3, saying(mesh="x=8")), (2, 3, saying(mesh="x=4", platform="tpu")))
    assert len(set(said)) == 1
    assert "mesh: x=8 on host 1, x=4 on hosts 0 and 2\n" in said[0]
    assert "platform: tpu on host 2, not there on hosts 0 and 1\n" in said[0]
    assert "hint: give the same command on all hosts" in said[0]


def test_hosts_that_disagree_on_their_number_all_hear_it(address):
    counts = [(0, 2, saying(hosts="2")), (1, 3, saying(hosts="3")), (2, 3, saying(hosts="3"))]
    assert {text.splitlines()[0] for text in together(address, *counts)} == {
        "the hosts cannot run together: hosts: 2 on host 0, 3 on hosts 1 and 2"
    }


@pytest.mark.parametrize("number", [0, 1])
def test_a_number_that_is_given_twice_is_told_on_both(address, number):
    said = together(address, (0, 3, SAME), (number, 3, SAME), (1, 3, SAME))
    assert len(set(said)) == 1
    here = "this host" if number == 0 else "127.0.0.1"
    assert f"host {number} is there 2 times (at {here} and 127.0.0.1)\n    nobody is host 2 of 3" in said[0]


def test_a_missing_host_is_told_on_all_others(address):
    said = together(address, (0, 3, SAME), (1, 3, SAME), limit=0.5)
    assert said[0] == said[1]
    assert "within 0.5 s nobody came as host 2 of 3\n  hint: einmap says on host 2 why it did not come" in said[0]


def test_an_address_that_is_not_of_this_host_is_a_hint():
    (said,) = together(Address("192.0.2.1", 40_001), (0, 2, SAME), limit=0.1)
    assert "192.0.2.1 does not seem to be an address of this host" in said


def test_a_missing_host_0_is_told(address):
    (said,) = together(address, (1, 2, SAME), limit=0.1)
    assert f"coordinator {address}: within 0.1 s host 0 could not be reached: Connection refused" in said


def test_a_name_that_does_not_resolve_is_told_by_both(monkeypatch):
    def unknown(*_, **__):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    for host in range(2):
        (said,) = together(Address("nowhere.invalid", 40_001), (host, 2, SAME))
        assert "coordinator nowhere.invalid:40001: 'nowhere.invalid' does not resolve: Name or service" in said


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"SSH-2.0-x\x1b[31m\n", r"is not host 0 of an einmap: it said 'SSH-2.0-x\x1b[31m'"),
        (
            b"\0\0\x12\4\0\0\0\0\0",
            "it speaks as JAX does: another einmap that has begun already, or one that is older",
        ),
        (b'{"einmap hosts": 1}\n', "is another einmap than this one"),
        (b"", "accepts connections and says nothing"),
    ],
)
def test_another_program_at_the_port_is_told_by_what_it_says(answer, text):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = Address("127.0.0.1", other.getsockname()[1])
        kept = []

        def serve():
            for _ in range(2):
                kept.append(other.accept()[0])
                kept[-1].sendall(answer)

        server = threading.Thread(target=serve)
        server.start()
        first, second = together(address, (0, 2, SAME), (1, 2, SAME))
        server.join()
        for one in kept:
            one.close()
    assert text in first and text in second
    assert "the port is taken on this host; what listens there" in first
    assert "choose a free port of host 0" in first


def test_a_port_that_the_system_forbids_is_told(monkeypatch):
    def forbidden(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(socket, "create_server", forbidden)
    (said,) = together(Address("127.0.0.1", 80), (0, 2, SAME))
    assert "coordinator 127.0.0.1:80: host 0 may not listen at this port: Permission denied" in said
    assert "from 1024 to 65535" in said


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n", b"[" * 100_000 + b"\n", b"{}\n"])
def test_strangers_at_host_0_are_named_and_change_nothing(address, sent):
    zero = host_zero.HostZero(Seat(0, 2, address, 0.3))
    with socket.create_connection((address.name, address.port)) as stranger:
        stranger.sendall(sent)
        with pytest.raises(
            EngineError, match=r"something else than einmap came from 127\.0\.0\.1: it (said|speaks as JAX)"
        ):
            zero.agree(SAME, LONG)


def test_hosts_meet_although_a_stranger_came(address):
    zero = host_zero.HostZero(Seat(0, 2, address, LONG))
    with socket.create_connection((address.name, address.port)) as stranger:
        stranger.sendall(b'{"einmap hosts": 1, "host": "1", "hosts": [], "facts": 7}\nhello\n')
        guest = meet(Seat(1, 2, address, LONG))
        other = threading.Thread(target=guest.agree, args=(SAME, LONG))
        other.start()
        zero.agree(SAME, LONG)
        other.join()
    guest.close()
    zero.close()


def test_a_line_without_end_is_not_read_for_ever():
    left, right = socket.socketpair()
    with left, right:
        writer = threading.Thread(target=left.sendall, args=(b"{" * (MAX_LINE + 1),))
        writer.start()
        with pytest.raises(StrangerError):
            Connection(right).receive()
        left.shutdown(socket.SHUT_RDWR)
        writer.join()


@pytest.mark.parametrize("failing", [0, 1, 2])
@pytest.mark.parametrize("ending", ["it fails", "it vanishes", "it parts in peace"])
def test_what_happens_to_a_host_reaches_all_others(address, failing, ending):
    meetings = {host: meet(Seat(host, 3, address, LONG)) for host in range(3)}
    threads = [threading.Thread(target=one.agree, args=(SAME, LONG)) for one in meetings.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    heard = {host: threading.Event() for host in meetings}
    texts = {}

    def alarm(host):
        return lambda why: (texts.setdefault(host, why), heard[host].set())

    for host, meeting in meetings.items():
        if host != failing:
            meeting.watch(alarm(host))
    lost = meetings.pop(failing)
    if ending == "it fails":
        lost.fail("process 1 of 3 was killed")
    elif ending == "it vanishes":
        lost._tell = lambda *_, **__: None
        for connection in lost._connections if failing == 0 else [lost._connection]:
            connection.close()
    else:
        lost.close()
    for host, meeting in meetings.items():
        if ending == "it parts in peace":
            with pytest.raises(EngineError, match=r"another host has failed; host \d has ended"):
                meeting.agree(SAME, LONG)
        else:
            assert heard[host].wait(LONG)
            words = "process 1 of 3 was killed" if ending == "it fails" else "has ended without a word"
            assert texts[host].startswith(f"host {failing}") and words in texts[host]
    for meeting in meetings.values():
        meeting.close()


# facts


def plan_and_inputs(placements, seed=0, **changes):
    sizes = {"M": 10, "N": 7, "K": 20} | changes
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": ["Z[m, n] = A[k, m] * B[k, n]"]}
    plan = distribute_workload(Spec.from_dict({"workload": workload}).workload, {"x": 4}, placements)
    return plan, numeric.random_inputs(plan.workload, seed=seed)


def facts_from(plan, inputs):
    return facts_of({"platform": "cpu"}, [plan], inputs, encode(plan))


OVER_K = {"A": {"K": "x"}, "B": {"K": "x"}}


def test_the_same_plan_and_inputs_do_not_differ():
    assert differences({host: facts_from(*plan_and_inputs(OVER_K)) for host in range(3)}) == []


def test_versions_sizes_plans_and_values_are_told_in_words(monkeypatch):
    base = facts_from(*plan_and_inputs(OVER_K))

    def different(facts):
        return differences({0: base, 1: facts})

    assert different(facts_from(*plan_and_inputs(OVER_K, M=11))) == [
        "Einsum Z: 'k=20, m=11, n=7' on host 1, 'k=20, m=10, n=7' on host 0"
    ]
    (line,) = different(facts_from(*plan_and_inputs({"A": {"M": "x"}})))
    assert re.match(
        r"line 1 of the plan: 'AD.*' on host 1, 'AD\[x, k0, m\] = A\[k, m\]   distribute   k = x\*5 \+ k0' on host 0$",
        line,
    )
    values = different(facts_from(*plan_and_inputs(OVER_K, seed=1)))
    assert [text.partition(":")[0] for text in values] == ["digest of the values of A", "digest of the values of B"]
    monkeypatch.setattr(facts_module, "_version", lambda name: f"9 of {name}")
    assert [text.partition(":")[0] for text in different(facts_from(*plan_and_inputs(OVER_K)))] == [
        "version of einmap",
        "version of jax",
        "version of jaxlib",
    ]


def test_the_digest_tells_what_no_line_shows():
    plan, inputs = plan_and_inputs(OVER_K)
    (text,) = differences({0: facts_from(plan, inputs), 1: facts_from(*relisted(plan, inputs))})
    assert text.startswith("digest of the plan: ")


def relisted(plan, inputs):
    """The same plan with its buffers in another order."""
    return replace(plan, buffers=plan.buffers[::-1]), inputs


def test_facts_survive_their_way_and_nothing_else_is_taken_for_them():
    facts = facts_from(*plan_and_inputs(OVER_K))
    assert Facts.decoded(facts.encoded()) == facts
    for other in (None, 7, "text", [7], [["a", "b"]], [[["a", 1]]], [[["a"]]], {"a": []}):
        assert Facts.decoded(other) is None


def test_values_of_any_layout_have_one_digest():
    values = np.arange(6.0).reshape(2, 3)
    plan, inputs = plan_and_inputs(OVER_K)
    one, other = ({**inputs, "A": array} for array in (values, np.asfortranarray(values)))
    assert facts_from(plan, one) == facts_from(plan, other)


# addresses


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x:0", "port 0 stands for any free port"),
        ("x:65536", "the largest port is 65535"),
        ("x:" + "9" * 5000, "the largest port is 65535"),
        ("x", "expected an address and a port, such as 10.0.0.1:9000"),
        ("x:y", "expected an address and a port"),
        (":80", "expected an address and a port"),
        ("1:2:3", "expected an address and a port"),
        ("0.0.0.0:80", "0.0.0.0 is not one that other hosts can reach"),
        ("[::]:80", ":: is not one that other hosts can reach"),
        ("[a:zz]:80", "a:zz is not an address"),
    ],
)
def test_what_is_not_an_address_of_host_0_is_refused(text, said):
    with pytest.raises(SpecError) as caught:
        Address.parse(text)
    assert said in str(caught.value)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("text", ["10.0.0.1:9000", "node-0.example:65535", "[fd00::1]:1"])
def test_an_address_is_written_as_it_was_read(text):
    assert str(Address.parse(text)) == text


def test_only_literal_addresses_of_this_host_are_its_own():
    assert Address("127.0.0.1", 1).is_of_this_host
    assert not Address("localhost", 1).is_of_this_host
    assert not Address("192.0.2.1", 1).is_of_this_host
