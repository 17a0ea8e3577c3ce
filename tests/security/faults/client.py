"""A separate client process that a test can kill: it starts a server, introduces itself, and makes one call on
request.

It prints the server's process id when the server is ready, and the result of the call. A line on stdin starts the
call, the end of stdin stops the client.
"""

import json
import subprocess
import sys

from tests.e2e.mcp.talk import HELLO


def main(log: str, call: str, *command: str) -> None:
    with open(log, "ab") as errors:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
    assert server.stdin is not None
    assert server.stdout is not None

    def send(message: object) -> None:
        server.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        server.stdin.flush()

    def answer(number: int) -> object:
        for line in server.stdout:
            message = json.loads(line)
            if message.get("id") == number and "method" not in message:
                return message
        return None

    send({"id": 0, "method": "initialize", "params": HELLO})
    answer(0)
    send({"method": "notifications/initialized"})
    print(server.pid, flush=True)
    for number, _ in enumerate(sys.stdin, 1):
        send({"id": number, "method": "tools/call", "params": json.loads(call)})
        print(json.dumps(answer(number)), flush=True)
    server.stdin.close()
    server.wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
