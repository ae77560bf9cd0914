#!/usr/bin/env python3
"""A TLS server for tests/unit/remote/http/test_remote_http.c: HTTP/2 with frames by hand, or HTTP/1.1.

usage: tls_server.py CERTIFICATE KEY h2|http/1.1

The first line of standard output is the port.  Then one for each thing that happens, with
microseconds of the monotonic clock: "conn N", "request STREAM", "rst STREAM", "closed N".
The request's body decides: "hang" gets no answer, "half" gets a head and a piece, "reset" gets
half and RST_STREAM, "refuse" a RST_STREAM that says it was not looked at, "goaway" a closed
connection, "slow ..." waits 300 ms, everything else is echoed.  Ends with standard input.
"""
import select
import socket
import ssl
import struct
import sys
import threading
import time

DATA, HEADERS, RST, SETTINGS, PING, GOAWAY, WINDOW = 0, 1, 3, 4, 6, 7, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1


def told(what, n):
    try:
        sys.stdout.write('%s %d %d\n' % (what, n, time.monotonic_ns() // 1000))
        sys.stdout.flush()
    except OSError:		# the test has ended
        pass


def head(status=b'\x88', kind=b'application/json'):
    return status + b'\x0f\x10' + bytes([len(kind)]) + kind


class H2:
    """One thread does it all: an SSL object isn't for two."""

    def __init__(self, s, n):
        self.s, self.n, self.bodies, self.buf, self.due = s, n, {}, b'', []

    def more(self):
        """Bytes that have come, while answers that are due are given."""
        while not self.s.pending():
            wait = max(0, self.due[0][0] - time.monotonic()) if self.due else 60
            if select.select([self.s], [], [], wait)[0]:
                break
            if self.due:
                _, stream, body = self.due.pop(0)
                self.echo(stream, body)
        piece = self.s.recv(65536)
        if not piece:
            raise EOFError
        self.buf += piece

    def read(self, n):
        while len(self.buf) < n:
            self.more()
        out, self.buf = self.buf[:n], self.buf[n:]
        return out

    def frame(self, kind, flags, stream, payload=b''):
        self.s.sendall(struct.pack('>I', len(payload))[1:] + bytes([kind, flags]) + struct.pack('>I', stream) + payload)

    def echo(self, stream, body):
        self.frame(HEADERS, END_HEADERS, stream, head())
        while len(body) > 16384:
            self.frame(DATA, 0, stream, body[:16384])
            body = body[16384:]
        self.frame(DATA, END_STREAM, stream, body)

    def answer(self, stream, body):
        if body == b'hang':
            return
        if body in (b'half', b'reset'):
            self.frame(HEADERS, END_HEADERS, stream, head(kind=b'text/event-stream'))
            self.frame(DATA, 0, stream, b'data: x\n\n')
            if body == b'reset':
                self.frame(RST, 0, stream, struct.pack('>I', 2))
        elif body == b'refuse':
            self.frame(RST, 0, stream, struct.pack('>I', 7))
        elif body == b'goaway':
            self.frame(GOAWAY, 0, 0, struct.pack('>II', stream, 0))
            raise EOFError
        elif body.startswith(b'slow'):
            self.due.append((time.monotonic() + 0.3, stream, body))
        else:
            self.echo(stream, body)

    def run(self):
        assert self.read(24) == b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
        self.frame(SETTINGS, 0, 0)
        while True:
            h = self.read(9)
            n, kind, flags, stream = int.from_bytes(h[:3], 'big'), h[3], h[4], int.from_bytes(h[5:], 'big') & 0x7fffffff
            payload = self.read(n)
            if kind == SETTINGS and not flags & ACK:
                self.frame(SETTINGS, ACK, 0)
            elif kind == PING and not flags & ACK:
                self.frame(PING, ACK, 0, payload)
            elif kind == RST:
                told('rst', stream)
                self.due = [d for d in self.due if d[1] != stream]
            elif kind == HEADERS:
                self.bodies[stream] = b''
            elif kind == DATA:
                self.bodies[stream] += payload
                if n:
                    self.frame(WINDOW, 0, 0, struct.pack('>I', n))
                    self.frame(WINDOW, 0, stream, struct.pack('>I', n))
            if kind in (HEADERS, DATA) and flags & END_STREAM:
                told('request', stream)
                self.answer(stream, self.bodies.pop(stream))


def http1(s):
    f = s.makefile('rb')
    while True:
        length, line = 0, f.readline()
        if not line:
            raise EOFError
        while line not in (b'\r\n', b''):
            if line.lower().startswith(b'content-length:'):
                length = int(line.split(b':')[1])
            line = f.readline()
        body = f.read(length)
        told('request', 0)
        if body == b'hang':
            f.read(1)
            raise EOFError
        if body == b'cut':
            # the socket ends without TLS's farewell
            s.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf')
            s.shutdown(socket.SHUT_RDWR)
            raise EOFError
        s.sendall(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s' % (len(body), body))


def connection(raw, n, context):
    told('conn', n)
    try:
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        raw.settimeout(60)
        s = context.wrap_socket(raw, server_side=True)
        if s.selected_alpn_protocol() == 'h2':
            H2(s, n).run()
        else:
            http1(s)
    except (EOFError, OSError):
        pass
    told('closed', n)
    raw.close()


def main():
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    context.set_alpn_protocols([sys.argv[3]])
    listener = socket.create_server(('127.0.0.1', 0), backlog=512)
    print(listener.getsockname()[1], flush=True)

    def accept():
        n = 0
        while True:
            s, _ = listener.accept()
            n += 1
            threading.Thread(target=connection, args=(s, n, context), daemon=True).start()
    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()


main()
