# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs a program as server and client, and reports as KTAP."""
import subprocess
import time


def listening(port, process):
    want = f'{port:04X}'
    for table in (f'/proc/{process}/net/tcp', f'/proc/{process}/net/tcp6'):
        with open(table) as f:
            for line in f.readlines()[1:]:
                fields = line.split()
                if fields[3] == '0A' and fields[1].endswith(':' + want):
                    return True
    return False


def run_pair(server_cmd, client_cmd, address, port, limit):
    """Server and client of one program; both must succeed.  Returns an explanation of a failure, or None."""
    at_port = ['-p', str(port)]
    server = subprocess.Popen(server_cmd + at_port, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client = None
    try:
        end = time.monotonic() + limit
        while not listening(port, server.pid):
            if server.poll() is not None:
                return f'server: exit status {server.returncode}\n{server.stdout.read()}'
            if time.monotonic() > end:
                return 'server does not listen'
            time.sleep(0.02)
        client = subprocess.Popen(client_cmd + at_port + [address], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True)
        text, _ = client.communicate(timeout=limit)
        if client.returncode:
            return f'client: exit status {client.returncode}\n{text}'
        text, _ = server.communicate(timeout=limit)
        if server.returncode:
            return f'server: exit status {server.returncode}\n{text}'
        return None
    except subprocess.TimeoutExpired:
        return f'no end within {limit} s'
    finally:
        for p in (server, client):
            if p and p.poll() is None:
                p.kill()
                p.wait()


class Report:
    def __init__(self, planned):
        self.n = self.failed = 0
        print('KTAP version 1')
        print(f'1..{planned}', flush=True)

    def add(self, name, why):
        """why: None, or what went wrong."""
        self.n += 1
        self.failed += why is not None
        for line in (why or '').splitlines():
            print(f'#   {line}')
        print(f'{"ok" if why is None else "not ok"} {self.n} - {name}', flush=True)
