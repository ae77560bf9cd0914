"""libpq by ctypes: a connection that survives errors, and a cancel from another thread.

bench/soak and scripts/fuzz_sql use it.  Standard library only.
"""
import ctypes
import ctypes.util
import os
import socket
import subprocess

from benchlib import pg_config


def load_libpq():
    name = ctypes.util.find_library("pq") or os.path.join(subprocess.check_output([pg_config(), "--libdir"], text=True).strip(), "libpq.so.5")
    pq = ctypes.CDLL(name)
    for f, result, arguments in (("PQconnectdb", "p", "s"), ("PQstatus", "i", "p"), ("PQfinish", None, "p"), ("PQexec", "p", "ps"),
                                 ("PQclear", None, "p"), ("PQresultStatus", "i", "p"), ("PQresultErrorField", "s", "pi"), ("PQerrorMessage", "s", "p"),
                                 ("PQntuples", "i", "p"), ("PQnfields", "i", "p"), ("PQgetvalue", "s", "pii"), ("PQgetisnull", "i", "pii"),
                                 ("PQtransactionStatus", "i", "p"), ("PQsocket", "i", "p"), ("PQbackendPID", "i", "p"), ("PQgetCancel", "p", "p"), ("PQfreeCancel", None, "p"),
                                 ("PQcancel", "i", "psi")):
        types = {"p": ctypes.c_void_p, "s": ctypes.c_char_p, "i": ctypes.c_int, None: None}
        getattr(pq, f).restype = types[result]
        getattr(pq, f).argtypes = [types[a] for a in arguments]
    return pq


class Failed(Exception):
    """A statement's error: its SQLSTATE ("" if the connection was lost) and text."""

    def __init__(self, state, text):
        super().__init__(f"{state} {text.strip()}")
        self.state = state


class Connection:
    def __init__(self, pq, server, name, user="postgres", dbname="postgres"):
        self.pq, self.c, self.cancel_key = pq, None, None
        self.where = f"host={server.sock} port={server.port} user={user} dbname={dbname} application_name='{name}'".encode()
        self.open()

    def open(self):
        self.close()
        self.c = self.pq.PQconnectdb(self.where)
        if self.pq.PQstatus(self.c) != 0:
            raise Failed("", (self.pq.PQerrorMessage(self.c) or b"").decode())
        self.cancel_key = self.pq.PQgetCancel(self.c)
        self.query("SET client_min_messages = warning")

    def close(self):
        if self.c:
            self.pq.PQfreeCancel(self.cancel_key)
            self.pq.PQfinish(self.c)
        self.c = self.cancel_key = None

    def query(self, sql):
        """Return the rows, as tuples of text or None."""
        r = self.pq.PQexec(self.c, sql.encode())
        try:
            if not r or self.pq.PQresultStatus(r) not in (1, 2):
                state = (self.pq.PQresultErrorField(r, ord("C")) or b"").decode() if r else ""
                raise Failed(state, (self.pq.PQerrorMessage(self.c) or b"").decode())
            return [tuple(None if self.pq.PQgetisnull(r, i, j) else self.pq.PQgetvalue(r, i, j).decode()
                          for j in range(self.pq.PQnfields(r))) for i in range(self.pq.PQntuples(r))]
        finally:
            self.pq.PQclear(r)

    def open_transaction(self):
        """Return true inside a transaction block, failed or not."""
        return self.pq.PQtransactionStatus(self.c) in (2, 3)

    def cancel(self):
        self.pq.PQcancel(self.cancel_key, ctypes.create_string_buffer(256), 256)

    def cut(self):
        """Close the socket, as a crashed client does."""
        fd = self.pq.PQsocket(self.c)
        if fd >= 0:
            s = socket.socket(fileno=os.dup(fd))
            try:
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
