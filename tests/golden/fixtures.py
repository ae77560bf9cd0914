#!/usr/bin/env python3
"""Unpack the suite's models, and pack them.

    fixtures.py unpack [KIND ...]   run in the repository's root
    fixtures.py pack KIND ...

tests/fixtures/KIND.tar.xz holds a folder of tiny models, which tests read under build/fixtures/KIND.
All random weights come from few seeds, so that the models of one folder have much in common: together
they take a third of the space that they would take one by one.

"unpack" replaces folders that are older than their archives and leaves the others alone; make runs it
before anything that reads models.  "pack" archives the folder as it is; the same files give the same
bytes.  To remove a model, delete it in build/fixtures and pack.  Scripts that make models use

    with fixtures.repacked("models") as folder:

Needs the standard library only.
"""
import contextlib
import fcntl
import lzma
import os
import shutil
import sys
import tarfile

ARCHIVES = "tests/fixtures"
FOLDERS = "build/fixtures"

# The files hold numbers of two and four bytes, so let the literal coder use the byte's position in them
# (lp).
FILTERS = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": 1 << 26, "lc": 0, "lp": 2, "pb": 2}]


def archive(kind):
    return f"{ARCHIVES}/{kind}.tar.xz"


def done(kind):
    """Return the file whose time is that of the last unpacking or packing."""
    return f"{FOLDERS}/{kind}.done"


def is_new(kind):
    return os.path.exists(done(kind)) and (
        not os.path.exists(archive(kind)) or os.path.getmtime(done(kind)) >= os.path.getmtime(archive(kind)))


@contextlib.contextmanager
def locked(kind):
    os.makedirs(FOLDERS, exist_ok=True)
    with open(f"{FOLDERS}/{kind}.lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        yield


def unpack(kind):
    with locked(kind):
        if is_new(kind):
            return
        folder = f"{FOLDERS}/{kind}"
        shutil.rmtree(folder + ".new", ignore_errors=True)
        os.makedirs(folder + ".new")
        if os.path.exists(archive(kind)):
            with tarfile.open(archive(kind)) as tar:
                tar.extractall(folder + ".new", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        shutil.rmtree(folder, ignore_errors=True)
        os.rename(folder + ".new", folder)
        with open(done(kind), "w"):
            pass


def plain(info):
    """Remove the metadata that differs from one machine to another."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    info.mode = 0o755 if info.isdir() else 0o644
    return info


def pack(kind):
    with locked(kind):
        if not is_new(kind):
            sys.exit(f"{archive(kind)} is newer than {FOLDERS}/{kind}: unpack it first")
        folder = f"{FOLDERS}/{kind}"
        with lzma.open(archive(kind) + ".new", "wb", filters=FILTERS) as out:
            with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                for name in sorted(os.listdir(folder)):
                    tar.add(f"{folder}/{name}", name, filter=plain)
        os.rename(archive(kind) + ".new", archive(kind))
        os.utime(done(kind))


@contextlib.contextmanager
def repacked(kind):
    """Yield the folder, for new models; pack it afterwards."""
    unpack(kind)
    yield f"{FOLDERS}/{kind}"
    pack(kind)


def main():
    what, kinds = sys.argv[1:2], sys.argv[2:]
    if what == ["unpack"]:
        for kind in kinds or sorted(f[:-7] for f in os.listdir(ARCHIVES) if f.endswith(".tar.xz")):
            unpack(kind)
    elif what == ["pack"] and kinds:
        for kind in kinds:
            pack(kind)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
