#!/usr/bin/env python3
"""How long `rnnc lsp` takes to answer keystrokes in a file of many lines.

    python3 bench/lsp_latency.py [--rnnc PATH] [--lines 1000] [--keys 500]

The file is made of the shipped cells, renamed, until it has that many lines. Each key types or
deletes a letter at a random place; its time runs from the change being sent until what an editor
then asks for is there: completion, and the diagnostics of that text.
"""

import argparse
import json
import pathlib
import random
import re
import subprocess
import time

CELLS = pathlib.Path(__file__).parent.parent / "examples" / "cells"


def long_file(lines):
    text = ""
    count = 0
    while text.count("\n") < lines:
        for path in sorted(CELLS.glob("*.rnn")):
            cell = path.read_text()
            if "import" in cell or text.count("\n") >= lines:
                continue
            for name in re.findall(r"^(?:cell|network|fn|const) (\w+)", cell, re.M):
                cell = re.sub(rf"\b{name}\b", f"{name}_{count}", cell)
            text += cell + "\n"
            count += 1
    return text


class Client:
    def __init__(self, command):
        self.process = subprocess.Popen([command, "lsp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.requests = 0

    def send(self, method, params, request=False):
        message = {"jsonrpc": "2.0", "method": method, "params": params}
        if request:
            self.requests += 1
            message["id"] = self.requests
        body = json.dumps(message).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self.requests

    def read(self):
        length = 0
        while (line := self.process.stdout.readline().strip()):
            length = int(line.split(b":")[1])
        return json.loads(self.process.stdout.read(length))

    def wait_for(self, wanted):
        while not wanted(message := self.read()):
            pass
        return message


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rnnc", default="build/default/tools/rnnc")
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--keys", type=int, default=500)
    options = parser.parse_args()
    text = long_file(options.lines)
    lines = text.count("\n")
    client = Client(options.rnnc)
    answer = client.send("initialize", {"capabilities": {}}, request=True)
    client.wait_for(lambda m: m.get("id") == answer)
    client.send("initialized", {})
    document = {"uri": "file:///long.rnn"}
    client.send("textDocument/didOpen", {"textDocument": {**document, "languageId": "rnn", "version": 0, "text": text}})
    first = client.wait_for(lambda m: m.get("method") == "textDocument/publishDiagnostics")
    errors = [d for d in first["params"]["diagnostics"] if d["severity"] == 1]
    assert not errors, errors
    random.seed(1)
    completed, diagnosed = [], []
    rows = text.split("\n")
    for key in range(options.keys):
        typed = key % 2 == 0  # then it is deleted again
        if typed:
            line = random.randrange(lines)
            column = random.randint(0, len(rows[line].encode("utf-16-le")) // 2)
        place = {"line": line, "character": column}
        behind = {"line": line, "character": column + 1}
        change = {"range": {"start": place, "end": place if typed else behind}, "text": "k" if typed else ""}
        start = time.perf_counter()
        version = key + 1
        client.send("textDocument/didChange", {"textDocument": {**document, "version": version}, "contentChanges": [change]})
        answer = client.send("textDocument/completion", {"textDocument": document, "position": behind if typed else place}, request=True)
        waiting = {"completion", "diagnostics"}  # which come in any order
        while waiting:
            message = client.read()
            if message.get("id") == answer:
                waiting.remove("completion")
                completed.append(time.perf_counter() - start)
            elif message.get("params", {}).get("version") == version:
                waiting.remove("diagnostics")
                diagnosed.append(time.perf_counter() - start)
    client.send("shutdown", None, request=True)
    client.send("exit", None)
    assert client.process.wait(timeout=10) == 0
    print(f"{lines} lines, {options.keys} keys")
    for name, times in (("completion", completed), ("diagnostics", diagnosed)):
        times.sort()
        p50, p99 = times[len(times) // 2], times[int(len(times) * 0.99)]
        print(f"{name}: p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, most {times[-1] * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
