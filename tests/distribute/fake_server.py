"""What a process of `processes.Processes` does in tests: answers, and every way of not answering."""

import os
import signal
import sys
import time

from einmap.distribute.backends.jax.messages import Message
from einmap.errors import SpecError


def start(settings):
    return FakeServer(settings)


class FakeServer:
    def __init__(self, settings):
        self.settings = settings

    def close(self):
        print("ending")

    def answer(self, request):
        match request.document["do"]:
            case "echo":
                print("printed output is not an answer")
                os.write(1, b"nor is that of other languages\n")
                return Message({"settings": self.settings, "said": request.document["say"]}, request.arrays)
            case "refuse":
                raise SpecError("this cannot be done", hint="do something else")
            case "raise":
                raise ZeroDivisionError("one over nothing")
            case "raise from others":
                try:
                    try:
                        int("seven")
                    except ValueError as error:
                        raise RuntimeError("INVALID_ARGUMENT: two blocks\nblock 1\n\nblock 2") from error
                except RuntimeError:
                    raise KeyError("plan")  # noqa: B904
            case "refuse for a reason":
                try:
                    int("seven")
                except ValueError as error:
                    raise SpecError("this cannot be done", hint="do something else") from error
            case "abort":
                os.write(2, b"I1125 04:52:14.123456  12 a.cc:1] all is well\n")
                os.write(2, b"F1125 04:52:14.123456  123 xla/b.cc:12] Check failed: n == 8 (4 vs. 8)\n")
                os.write(2, b"E1125 04:52:14.123456  123 a.cc:2] later\n" * 20)
                os.abort()
            case "exit":
                os.write(2, b"first words\n" + b"x" * 2000 + b"\nlast words\n")
                os._exit(7)
            case "kill":
                print("about to be killed", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            case "complain if a peer is gone":
                time.sleep(0.2)
                raise ConnectionError("connection reset by peer")
            case "hang":
                print("waiting for a peer", flush=True)
                time.sleep(1000)
        raise AssertionError("unreachable")
