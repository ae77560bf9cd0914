"""A local server that speaks what vllm_pg_pull needs of the Hugging Face hub and of Ollama's registry.

    with Hub() as hub:
        hub.repo("org/x", {"config.json": b"{}", "model.safetensors": b"..."})
        hub.pages["/x.gguf"] = b"..."       # a file of the second server, hub.cdn_url
        hub.fault("/blobs/", cut=1000)      # the next request of a path that begins so is cut after 1000 bytes
        ... hub.url ... hub.seen ...

Large files are redirected to a second server, as the hub's are, which has ranges, If-Range and ETags.

    hub.py ORG/NAME=FOLDER ...      serve the files of folders, print the URL, until killed
"""
import hashlib
import http.server
import json
import os
import ssl
import sys
import threading
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = (".safetensors", ".gguf", ".bin")


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_GET(self):
        hub = self.server.hub
        self.close_connection = True
        hub.seen.append((self.server.name, self.path, dict(self.headers)))
        self.fault = hub.next_fault(self.path)
        if "status" in self.fault:
            return self.reply(self.fault["status"], self.fault.get("body", b""), self.fault.get("headers", {}))
        path = urllib.parse.unquote(self.path.split("?")[0])
        if self.server.name == "cdn":
            return self.content(hub.pages.get(path) or hub.blobs.get(path.removeprefix("/blobs/")))
        if path.startswith("/v2/"):
            return self.registry(hub, path.split("/"))
        self.hub(hub, path)

    def hub(self, hub, path):
        for name, repo in hub.repos.items():
            if repo["token"] and self.headers.get("Authorization") != f"Bearer {repo['token']}":
                denied = {"X-Error-Code": "GatedRepo"}
                if path.startswith((f"/api/models/{name}/", f"/{name}/")):
                    return self.reply(403 if self.headers.get("Authorization") else 401, b"", denied)
            if path in (f"/api/models/{name}/revision/{r}" for r in ("main", repo["revision"])):
                return self.reply(200, json.dumps(repo["info"]).encode())
            if path.startswith(f"/api/models/{name}/revision/"):
                return self.reply(404, b"", {"X-Error-Code": "RevisionNotFound"})
            at = f"/{name}/resolve/{COMMIT}/"
            data = repo["files"].get(path.removeprefix(at)) if path.startswith(at) else None
            if data is not None and path.endswith(LARGE):
                headers = {"Location": f"{hub.cdn_url}/blobs/{sha256(data)}?signature=s", "X-Linked-Etag": f'"{sha256(data)}"'}
                return self.reply(302, b"", {**headers, **repo["redirect"]})
            if data is not None:
                return self.content(data)
        self.reply(404, b"", {"X-Error-Code": "RepoNotFound"})

    def registry(self, hub, parts):
        if parts[4] == "manifests":
            manifest = hub.manifests.get("/".join(parts[2:4] + parts[5:]))
            return self.reply(200, json.dumps(manifest).encode()) if manifest is not None else self.reply(404, b"")
        self.reply(307, b"", {"Location": f"{hub.cdn_url}/blobs/{parts[5].removeprefix('sha256:')}"})

    def content(self, data):
        """Send a file, or the range that the client wants of it."""
        if data is None:
            return self.reply(404, b"")
        etag = self.fault.get("etag", f'"{sha256(data)[:16]}"')
        data = self.fault.get("data", data)
        headers = {"ETag": etag} if etag else {}
        wanted = self.headers.get("Range", "").removeprefix("bytes=").removesuffix("-")
        start = int(wanted) if wanted and not self.fault.get("no_range") else 0
        if self.headers.get("If-Range", etag) != etag and not self.fault.get("bad_if_range"):
            start = 0
        if start >= len(data) > 0:
            return self.reply(416, b"")
        if start:
            at = self.fault.get("start", start)
            headers["Content-Range"] = f"bytes {at}-{len(data) - 1}/{len(data)}"
        self.reply(206 if start else 200, data[start:], headers)

    def reply(self, status, body, headers={}):
        self.send_response(status)
        for k, v in headers.items():
            self.send_header(k, v)
        chunked = self.fault.get("chunked")
        if chunked:
            self.send_header("Transfer-Encoding", "chunked")
            body = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)
        elif not self.fault.get("no_length"):
            self.send_header("Content-Length", str(self.fault.get("length", len(body))))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body[:self.fault.get("cut", len(body))])
        if "stall" in self.fault:
            self.wfile.flush()
            self.fault["stall"].wait(20)


class Hub:
    def __init__(self, certificate=None):
        """certificate: the files of one, and of its key, with which the first server speaks TLS."""
        self.repos, self.blobs, self.pages, self.manifests = {}, {}, {}, {}
        self.faults, self.seen = [], []
        self.servers = []
        for name in ("hub", "cdn"):
            server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            server.daemon_threads = True
            server.hub, server.name = self, name
            if certificate and name == "hub":
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(*certificate)
                server.socket = context.wrap_socket(server.socket, server_side=True)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            self.servers.append(server)
        self.url, self.cdn_url = (f"http://127.0.0.1:{s.server_address[1]}" for s in self.servers)
        if certificate:
            self.url = self.url.replace("http://127.0.0.1", "https://localhost")

    def __enter__(self):
        return self

    def __exit__(self, *args):
        for s in self.servers:
            s.shutdown()
            s.server_close()

    def repo(self, name, files, token=None, revision="v1", redirect={}):
        """Add a repository; its description may be changed before it is asked for."""
        siblings = []
        for f, data in files.items():
            entry = {"rfilename": f, "size": len(data), "blobId": git_sha1(data)}
            if f.endswith(LARGE):
                entry["lfs"] = {"sha256": sha256(data), "size": len(data), "pointerSize": 134}
                self.blobs[sha256(data)] = data
            siblings.append(entry)
        self.repos[name] = {"files": files, "token": token, "revision": revision, "redirect": redirect,
                            "info": {"id": name, "sha": COMMIT, "siblings": siblings}}
        return self.repos[name]["info"]

    def ollama(self, name, layers):
        """Add a manifest: layers are (kind, data)."""
        self.manifests[name] = {"schemaVersion": 2, "layers": [
            {"mediaType": f"application/vnd.ollama.image.{kind}; x=1", "digest": "sha256:" + sha256(data), "size": len(data)}
            for kind, data in layers]}
        self.blobs.update((sha256(data), data) for _, data in layers)
        return self.manifests[name]

    def fault(self, path, times=1, **what):
        self.faults.append([path, times, what])

    def next_fault(self, path):
        for f in self.faults:
            if path.startswith(f[0]) and f[1] > 0:
                f[1] -= 1
                return f[2]
        return {}

    def asked(self, name, header=None):
        """Return the paths, or the values of a header, of the requests that a server has seen."""
        return [h.get(header) if header else p for n, p, h in self.seen if n == name]


def main():
    with Hub() as hub:
        for name, folder in (a.split("=", 1) for a in sys.argv[1:]):
            hub.repo(name, {f: open(os.path.join(folder, f), "rb").read() for f in os.listdir(folder)})
        print(hub.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
