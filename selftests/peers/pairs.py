# SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
"""Runs a program as server and client, and reports as KTAP."""
import re
import subprocess
import sys
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


def gid_index(dev, prefix=()):
    """The GID of the device's IPv4 address."""
    base = f'/sys/class/infiniband/{dev}/ports/1'

    def read(path):
        said = subprocess.run([*prefix, 'cat', path], capture_output=True, text=True)
        return said.stdout.strip() if said.returncode == 0 else ''

    for i in range(16):
        gid, kind = read(f'{base}/gids/{i}'), read(f'{base}/gid_attrs/types/{i}')
        if kind == 'RoCE v2' and re.match(r'0000:0000:0000:0000:0000:ffff:', gid):
            return i
    sys.exit(f'{dev}: no RoCE v2 GID of an IPv4 address; give its netdev one')


class PairFailed(Exception):
    """What went wrong."""


def converse(server_cmd, client_cmd, is_ready, limit):
    """Server and client of one program; both must succeed.  is_ready(pid) says whether the server waits for the
    client.  The client's output."""
    server = subprocess.Popen(server_cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    client = None
    try:
        end = time.monotonic() + limit
        while not is_ready(server.pid):
            if server.poll() is not None:
                raise PairFailed(f'server: exit status {server.returncode}\n{server.stdout.read()}')
            if time.monotonic() > end:
                raise PairFailed('server does not listen')
            time.sleep(0.02)
        client = subprocess.Popen(client_cmd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        text, _ = client.communicate(timeout=limit)
        if client.returncode:
            raise PairFailed(f'client: exit status {client.returncode}\n{text}')
        theirs, _ = server.communicate(timeout=limit)
        if server.returncode:
            raise PairFailed(f'server: exit status {server.returncode}\n{theirs}')
        return text
    except subprocess.TimeoutExpired:
        raise PairFailed(f'no end within {limit} s') from None
    finally:
        for p in (server, client):
            if p and p.poll() is None:
                p.kill()
                p.wait()


def client_says(server_cmd, client_cmd, address, port, limit):
    """The same of programs that find each other by TCP."""
    at_port = ['-p', str(port)]
    return converse(server_cmd + at_port, client_cmd + at_port + [address], lambda pid: listening(port, pid), limit)


def run_pair(server_cmd, client_cmd, address, port, limit):
    """The same; returns an explanation of a failure, or None."""
    try:
        client_says(server_cmd, client_cmd, address, port, limit)
    except PairFailed as why:
        return str(why)
    return None


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
