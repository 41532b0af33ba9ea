"""The server of the studio under attack: refused or survived, and nothing said of what is inside."""

import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.studio.serving import MATMUL, served

from einmap.errors import EinmapError
from einmap.studio.server import MOST_CONNECTIONS, Server
from einmap.studio.session import Session

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
websockets = pytest.importorskip("websockets.sync.client")
exceptions = pytest.importorskip("websockets.exceptions")
ConnectionClosed, InvalidStatus = exceptions.ConnectionClosed, exceptions.InvalidStatus


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with served(folders=[tmp_path_factory.mktemp("folder")]) as both:
        yield both


def get(server, path, method="GET", body=None, **headers):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name, value)
    if body is not None:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders()
    if body is not None:
        connection.send(body)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, text, dict(answer.getheaders())


def window(server, token=None, origin=None, **more):
    address = f"ws://127.0.0.1:{server.port}/{token or server.token}/socket"
    return websockets.connect(
        address, origin=origin or f"http://127.0.0.1:{server.port}", max_size=None, open_timeout=20, **more
    )


def ask(connection, **message):
    connection.send(json.dumps({"id": 1, "message": message}))
    while (answer := json.loads(connection.recv(timeout=30)))["id"] != 1:
        pass
    return answer["answer"]


def test_the_page_and_its_modules_are_there_for_who_knows_the_token(studio):
    server, _ = studio
    for name, kind in (("", "text/html"), ("studio.js", "text/javascript"), ("studio.css", "text/css")):
        status, text, headers = get(server, f"/{server.token}/{name}")
        assert status == 200
        assert text
        assert headers["content-type"].startswith(kind)
        assert "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("/", {}),
        ("//", {}),
        ("/TOKEN", {}),
        ("/wrong/", {}),
        ("/TOKENx/", {}),
        ("/TOKEN/../../etc/passwd", {}),
        ("/TOKEN/%2e%2e/session.py", {}),
        ("/TOKEN/session.py", {}),
        ("/TOKEN/page/studio.js", {}),
        ("/%C3%A9/", {}),
        ("/TOKEN/", {"Host": "evil.example"}),
        ("/TOKEN/", {"Host": "evil.example:PORT"}),
        ("/TOKEN/", {"Origin": "http://evil.example"}),
        ("/TOKEN/", {"Origin": "null"}),
    ],
)
def test_others_are_told_that_nothing_is_there(studio, path, headers):
    server, _ = studio
    headers = {name: value.replace("PORT", str(server.port)) for name, value in headers.items()}
    status, text, _ = get(server, path.replace("TOKEN", server.token), **headers)
    assert (status, text) in ((404, b"not found\n"), (400, b"Invalid HTTP request received."))


@pytest.mark.slow
@pytest.mark.hostile
def test_nothing_is_uploaded(studio):
    server, _ = studio
    try:
        status, _, _ = get(server, f"/{server.token}/", "POST", b"x" * 50_000_000)
    except (ConnectionError, TimeoutError):
        status = 405  # closed before all was sent
    assert status == 405
    assert get(server, f"/{server.token}/")[0] == 200


@pytest.mark.parametrize(
    "bad", [{"token": "wrong"}, {"origin": "http://evil.example"}, {"origin": "https://127.0.0.1"}]
)
def test_a_window_of_another_origin_or_without_the_token_is_refused(studio, bad):
    server, _ = studio
    with pytest.raises(InvalidStatus, match="403"), window(server, **bad):
        pass


def test_a_window_without_an_origin_is_refused(studio):
    server, _ = studio
    address = f"ws://127.0.0.1:{server.port}/{server.token}/socket"
    with pytest.raises(InvalidStatus, match="403"), websockets.connect(address, open_timeout=20):
        pass


def test_one_window_too_many_is_refused_and_a_closed_one_makes_room(studio):
    server, _ = studio
    with contextlib.ExitStack() as stack:
        windows = [stack.enter_context(window(server)) for _ in range(MOST_CONNECTIONS)]
        with pytest.raises(InvalidStatus, match="403"), window(server):
            pass
        assert [ask(one, do="look")["kind"] for one in windows] == ["state"] * MOST_CONNECTIONS
    with window(server) as one:
        assert ask(one, do="look")["kind"] == "state"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        '{"id": 1}',
        '{"id": "a", "message": {}}',
        '{"id": 1, "message": 3}',
        "[" * 50_000,
        '{"id":1,"message":{"do":"open","text":"{{ [1]*10**9 }}"}}',
    ],
)
def test_what_is_not_a_message_is_an_error_without_a_traceback(studio, text):
    server, _ = studio
    with window(server) as one:
        one.send(text)
        answer = json.loads(one.recv(timeout=30))["answer"]
        assert answer["kind"] == "error"
        assert "Traceback" not in answer["message"]
        assert ask(one, do="look")["kind"] == "state"


def test_a_message_that_is_too_long_ends_its_window_alone(studio):
    server, _ = studio
    with window(server) as one, window(server) as other:
        one.send('{"id": 1, "message": {"do": "open", "text": "' + "a" * 2_000_000 + '"}}')
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=30)
        assert ask(other, do="look")["kind"] == "state"


def test_other_windows_are_told_of_a_move_and_one_that_is_killed_is_forgotten(studio):
    server, _ = studio
    with window(server) as one, window(server) as other, window(server) as third:
        third.socket.shutdown(socket.SHUT_RDWR)
        state = ask(one, do="move", text="split k 8")
        told = json.loads(other.recv(timeout=30))
        assert told == {"id": None, "answer": state}
        assert ask(one, do="reset")["kind"] == "state"


@pytest.mark.slow
@pytest.mark.hostile
def test_a_thousand_requests_at_once_are_answered_or_refused_and_the_studio_lives(studio):
    server, _ = studio
    found = []

    def some():
        for _ in range(50):
            try:
                found.append(get(server, f"/{server.token}/studio.css")[0])
            except OSError:
                found.append("closed")

    threads = [threading.Thread(target=some) for _ in range(20)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(60)
    assert len(found) == 1000
    assert set(found) <= {200, 503, "closed"}
    assert get(server, f"/{server.token}/")[0] == 200


def test_a_port_that_is_taken_is_an_error(studio):
    server, _ = studio
    with pytest.raises(EinmapError, match=f"port {server.port} is not free"):
        Server(Session(server.session.spec), server.port).bind()


def test_ctrl_c_ends_the_command_without_a_word_too_many():
    command = [sys.executable, "-m", "einmap", "studio", *MATMUL, "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert "http://127.0.0.1:" in line
        port = int(line.split("127.0.0.1:")[1].split("/")[0])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        connection.request("GET", "/")
        assert connection.getresponse().status == 404
        process.send_signal(signal.SIGINT)
        out, rest = process.communicate(timeout=30)
    finally:
        process.kill()
        process.stdout.close(), process.stderr.close()
    connection.close()
    assert (out, rest) == ("", "")
    assert process.returncode in (0, 130)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children of a process are read from /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_search_ends_with_the_command_however_that_ends(how):
    command = [sys.executable, "-m", "einmap", "studio", "tpu_v4i", "gpt3_6.7b", "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = next(line for line in process.stderr if "http://" in line)
        address = line.split("http://")[1].split(" ")[0]
        host = address.split("/")[0]
        with websockets.connect(f"ws://{address}socket", origin=f"http://{host}", open_timeout=60) as one:
            assert ask(one, do="search", seconds=3000.0)["search"]["runs"]
            while "what" not in (search := ask(one, do="progress")["search"]):
                assert search["runs"]
                time.sleep(0.1)
            (child,) = [pid for pid in children(process.pid) if "spawn_main" in words_of(pid)]
            process.send_signal(how)
            process.wait(60)
        end = time.monotonic() + 60
        while "spawn_main" in words_of(child):
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        process.kill()
        process.communicate()


def children(pid):
    lists = [one.read_text() for one in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(word) for words in lists for word in words.split()]


def words_of(pid):
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text()
    return ""
