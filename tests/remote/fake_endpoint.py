#!/usr/bin/env python3
"""An endpoint with OpenAI's interface whose answers are known and whose faults are chosen.

usage: fake_endpoint.py [--secret S] [--auth-header NAME] [--models A,B] [--tls CERTIFICATE KEY] [--name NAME]

Prints "PORT CONTROL": where it answers, and where it is controlled (always plain HTTP).  Ends with its
standard input.  HTTP/1.1 by hand, so that it can do what servers shouldn't; fake_model.py says what it answers.

Faults are asked for by markers in the request's body, [[NAME ARGUMENT xTIMES]] (xTIMES: only the first so many requests
with the same body), or by the control's POST /_control {"faults": [{"name": ..., "arg": ..., "times": ..., "path": ...}]},
which hold for the requests that follow, in their order:

  delay S          wait so long first              hang             no answer ever
  status CODE      that error; 200 = none          retry_after V    with such a header
  header NAME V    a further header                no_usage         without usage
  close            no answer, and close            reset            ... by RST
  cut_head         half a head                     cut_body         half a body
  cut_stream N     N events, then close            end_stream N     N events, then a proper end without [DONE]
  stall N          N events, then nothing          slow S           each event, or byte, after so long
  garbage          not JSON                        garbage_stream N N events, then one that is no JSON
  html             a page                          not_http         something else
  empty            {}                              null             null where text should be
  wrong_count      a choice or row too few         extra_count      one too many
  hidden N         usage has N more tokens, of thoughts that are not told
  same_index       all rows have index 0           shuffle          rows in reverse, each with its index
  wrong_dim        the last vector is shorter      nan              a vector with null or NaN
  redirect URL     307 to there                    huge BYTES       so much more of body
  bomb MB          a gzip bomb                     bad_utf8         invalid UTF-8 in the answer
  deep N           JSON of such depth              error_in_stream N  N events, then an error object
  close_idle       answer, then close silently     echo_secret      401 whose message holds the secret
  message TEXT     of the error                    hold             until POST /_release

Control: GET /_log (all requests as an array), GET /_stats, POST /_control (also {"headers": {..}} for every answer,
{"secret": ..}, {"models": [..]}), POST /_reset (forgets log, faults and figures), POST /_release.
"""
import argparse
import asyncio
import base64
import hashlib
import json
import re
import socket
import ssl
import struct
import sys
import time
import zlib

sys.dont_write_bytecode = True
import fake_model

REASONS = {200: 'OK', 307: 'Temporary Redirect', 400: 'Bad Request', 401: 'Unauthorized', 404: 'Not Found', 429: 'Too Many Requests',
           500: 'Internal Server Error', 503: 'Service Unavailable'}
FAULT = re.compile(r'\[\[(\w+)(?: ([^\]]*?))??(?: x(\d+))?\]\]')
ERROR_KINDS = {400: 'invalid_request_error', 401: 'authentication_error', 404: 'not_found_error', 429: 'rate_limit_error'}


def spoil_vector(v, fault):
    if isinstance(v, list):
        return v[:-1] if fault == 'wrong_dim' else [None] + v[1:]
    raw = base64.b64decode(v)
    raw = raw[:-4] if fault == 'wrong_dim' else struct.pack('<f', float('nan')) + raw[4:]
    return base64.b64encode(raw).decode()


def gzip_bomb(megabytes):
    """Blanks; the same compressed megabyte again and again, so its check sum is wrong, which nobody will come to."""
    z = zlib.compressobj(9, zlib.DEFLATED, -15)
    piece = z.compress(b' ' * (1 << 20)) + z.flush(zlib.Z_FULL_FLUSH)
    return b'\x1f\x8b\x08\0\0\0\0\0\0\x03' + piece * megabytes + z.flush() + b'\0' * 8


class Gone(Exception):
    """The client is, or we shall be."""


class State:
    def __init__(self, options):
        self.secret, self.auth_header, self.name = options.secret, options.auth_header.lower(), options.name
        self.models = options.models.split(',') if options.models else None
        self.headers, self.release = {}, asyncio.Event()
        self.open = 0
        self.forget()

    def forget(self):
        self.log, self.faults, self.tries = [], [], {}
        self.connections = self.at_once = self.most_at_once = 0
        self.release.set()
        self.release = asyncio.Event()

    def faults_of(self, entry, raw):
        """Of a request: {name: argument}."""
        found = {}
        key = hashlib.sha256(entry['path'].encode() + raw).digest()
        self.tries[key] = self.tries.get(key, 0) + 1
        text = raw.decode('utf-8', 'replace')
        for name, arg, times in FAULT.findall(text):
            if not times or self.tries[key] <= int(times):
                found[name] = arg
        for f in self.faults[:1]:
            if f.get('path', entry['path']) == entry['path']:
                found[f['name']] = str(f.get('arg', ''))
                f['times'] = f.get('times', 1) - 1
                if f['times'] <= 0:
                    self.faults.pop(0)
        return found


class Connection(asyncio.Protocol):
    def __init__(self, state, control):
        self.state, self.control = state, control
        self.buf, self.come, self.gone, self.writable = b'', asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.gone_at, self.pending = None, False

    def connection_made(self, transport):
        self.transport = transport
        self.writable.set()
        sock = transport.get_extra_info('socket')
        if sock is not None:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.control:
            self.state.connections += 1
            self.state.open += 1
        self.n = self.state.connections
        self.task = asyncio.ensure_future(self.serve())

    def data_received(self, data):
        self.buf += data
        self.come.set()

    def eof_received(self):
        self.client_gone()

    def connection_lost(self, exc):
        if not self.control:
            self.state.open -= 1
        self.client_gone()

    def client_gone(self):
        if self.gone_at is None:
            self.gone_at = time.time()
        self.gone.set()
        self.come.set()
        self.writable.set()

    def pause_writing(self):
        self.writable.clear()

    def resume_writing(self):
        self.writable.set()

    async def more(self):
        if self.gone.is_set():
            raise Gone
        self.come.clear()
        await self.come.wait()

    async def write(self, data):
        if self.gone.is_set():
            raise Gone
        self.transport.write(data)
        await self.writable.wait()
        if self.gone.is_set():
            raise Gone

    async def sleep(self, seconds):
        try:
            await asyncio.wait_for(self.gone.wait(), seconds)
        except asyncio.TimeoutError:
            return
        raise Gone

    async def request(self):
        while b'\r\n\r\n' not in self.buf:
            await self.more()
        head, _, self.buf = self.buf.partition(b'\r\n\r\n')
        lines = head.decode('latin-1').split('\r\n')
        method, target, _ = lines[0].split(' ', 2)
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(':')
            headers[name.lower()] = value.strip()
        n = int(headers.get('content-length', 0))
        while len(self.buf) < n:
            await self.more()
        body, self.buf = self.buf[:n], self.buf[n:]
        return method, target, headers, body

    async def serve(self):
        try:
            while True:
                method, target, headers, body = await self.request()
                if self.control:
                    await self.do_control(method, target, body)
                elif not await self.do_request(method, target, headers, body):
                    break
        except (Gone, ConnectionError):
            pass
        except Exception as e:		# a fault of this program is one of the test
            sys.stderr.write('fake_endpoint: %r\n' % e)
            raise
        finally:
            self.transport.close()

    # ---- the control ----

    async def do_control(self, method, target, body):
        s = self.state
        out = {}
        if target == '/_log':
            out = s.log
        elif target == '/_stats':
            out = {'connections': s.connections, 'open': s.open, 'requests': len(s.log), 'at_once': s.at_once, 'most_at_once': s.most_at_once}
        elif target == '/_reset':
            s.forget()
        elif target == '/_release':
            s.release.set()
            s.release = asyncio.Event()
        elif target == '/_control':
            what = json.loads(body)
            s.faults += what.get('faults', [])
            s.headers.update(what.get('headers', {}))
            s.secret = what.get('secret', s.secret)
            s.models = what.get('models', s.models)
        await self.answer(200, json.dumps(out).encode(), {})

    # ---- requests ----

    async def answer(self, status, body, headers, kind='application/json'):
        head = ['HTTP/1.1 %d %s' % (status, REASONS.get(status, 'Status')), 'Content-Type: ' + kind, 'Content-Length: %d' % len(body)]
        head += ['%s: %s' % h for h in headers.items()]
        await self.write('\r\n'.join(head).encode('latin-1') + b'\r\n\r\n' + body)

    def entry(self, method, target, headers, body):
        s = self.state
        secret = headers.get(s.auth_header)
        auth = 'none' if secret is None else 'right'
        if s.secret is not None and secret is not None:
            wanted = 'Bearer ' + s.secret if s.auth_header == 'authorization' else s.secret
            auth = 'right' if secret == wanted else 'wrong'
        try:
            said = json.loads(body) if body else None
        except ValueError:
            said = body.decode('utf-8', 'replace')
        path, _, query = target.partition('?')
        shown = {k: v for k, v in headers.items() if k not in (s.auth_header, 'authorization')}
        e = {'n': len(s.log), 'name': s.name, 'time': time.time(), 'conn': self.n, 'method': method, 'path': path, 'query': query, 'headers': shown,
             'auth': auth, 'body': said, 'faults': {}, 'status': None, 'events': 0, 'done': None, 'aborted': None}
        s.log.append(e)
        return e

    async def do_request(self, method, target, headers, body):
        s = self.state
        e = self.entry(method, target, headers, body)
        faults = e['faults'] = s.faults_of(e, body)
        s.at_once += 1
        s.most_at_once = max(s.most_at_once, s.at_once)
        try:
            keep = await self.respond(e, faults, headers)
            e['done'] = time.time()
            return keep
        except Gone:
            e['aborted'] = self.gone_at or time.time()
            e['aborted_after'] = e['aborted'] - e['time']
            raise
        finally:
            s.at_once -= 1

    async def respond(self, e, faults, headers):
        s = self.state
        more = dict(s.headers)
        if 'delay' in faults:
            await self.sleep(float(faults['delay']))
        if 'hold' in faults:
            done, _ = await asyncio.wait([asyncio.ensure_future(s.release.wait()), asyncio.ensure_future(self.gone.wait())],
                                         return_when=asyncio.FIRST_COMPLETED)
            if self.gone.is_set():
                raise Gone
        if 'hang' in faults:
            await self.gone.wait()
            raise Gone
        if 'retry_after' in faults:
            more['Retry-After'] = faults['retry_after']
        if 'header' in faults:
            name, _, value = faults['header'].partition(' ')
            more[name] = value
        if await self.broken(faults):
            return False
        try:
            status, answer = 200, self.answer_of(e, faults, headers)
        except fake_model.Refused as r:
            status = r.status
            answer = {'error': {'message': str(r), 'type': r.kind, 'param': None, 'code': status}}
        except (KeyError, TypeError, AttributeError) as r:
            status, answer = 400, {'error': {'message': 'bad request: %r' % r, 'type': 'invalid_request_error', 'param': None, 'code': 400}}
        e['status'] = status
        if 'redirect' in faults:
            e['status'] = 307
            await self.answer(307, b'', dict(more, Location=faults['redirect']))
        elif status == 200 and isinstance(e['body'], dict) and e['body'].get('stream') and 'choices' in answer:
            return await self.stream(e, answer, faults, more)
        else:
            return await self.whole(e, status, answer, faults, more)
        return True

    async def broken(self, faults):
        """Faults without an answer."""
        if 'close' in faults:
            return True
        if 'reset' in faults:
            self.transport.get_extra_info('socket').setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            self.transport.abort()
            return True
        if 'cut_head' in faults:
            await self.write(b'HTTP/1.1 200 OK\r\nContent-Type: appli')
            return True
        if 'not_http' in faults:
            await self.write(b'220 mail.example.com ESMTP\r\n')
            return True
        return False

    def answer_of(self, e, faults, headers):
        s = self.state
        if 'echo_secret' in faults:
            raise fake_model.Refused(401, 'Incorrect API key provided: %s' % headers.get(s.auth_header, ''), 'authentication_error')
        if faults.get('status', '200') != '200':
            code = int(faults['status'])
            raise fake_model.Refused(code, faults.get('message', 'fault %d' % code), ERROR_KINDS.get(code, 'server_error'))
        if s.secret is not None and e['auth'] != 'right':
            raise fake_model.Refused(401, 'Incorrect API key provided', 'authentication_error')
        path = e['path'][3:] if re.match(r'/v\d/', e['path']) else e['path']
        if path == '/models' and e['method'] == 'GET':
            return {'object': 'list', 'data': [{'id': m, 'object': 'model', 'created': 1, 'owned_by': 'test', 'max_model_len': 4096}
                                               for m in s.models or ['fake']]}
        if path == '/health':
            return {}
        if path not in fake_model.ROUTES:
            raise fake_model.Refused(404, 'Not Found', 'not_found_error')
        if e['method'] != 'POST' or not isinstance(e['body'], dict):
            raise fake_model.Refused(400, 'the body is not a JSON object')
        if s.models is not None and e['body'].get('model') not in s.models:
            raise fake_model.Refused(404, 'The model `%s` does not exist' % e['body'].get('model'), 'not_found_error')
        return self.spoil(fake_model.ROUTES[path](e['body']), faults)

    @staticmethod
    def spoil(answer, faults):
        rows = next((answer[k] for k in ('choices', 'data', 'results') if k in answer), None)
        if 'no_usage' in faults:
            answer.pop('usage', None)
        if 'hidden' in faults:
            answer['usage']['completion_tokens'] += int(faults['hidden'])
        if rows:
            if 'wrong_count' in faults:
                rows.pop()
            if 'extra_count' in faults:
                rows.append(dict(rows[-1], index=len(rows)))
            if 'same_index' in faults:
                for r in rows:
                    r['index'] = 0
            if 'shuffle' in faults:
                rows.reverse()
            for f in ('wrong_dim', 'nan'):
                if f in faults and 'embedding' in rows[-1]:
                    rows[-1]['embedding'] = spoil_vector(rows[-1]['embedding'], f)
            if 'null' in faults:
                for r in rows:
                    if 'message' in r:
                        r['message']['content'] = None
                    else:
                        r['text'] = None
        if 'bad_utf8' in faults and rows and ('text' in rows[0] or 'message' in rows[0]):
            (rows[0].get('message') or rows[0])['content' if 'message' in rows[0] else 'text'] = '@bad@'
        return answer

    async def whole(self, e, status, answer, faults, more):
        body, kind = json.dumps(answer).encode(), 'application/json'
        if status == 200:
            if 'garbage' in faults:
                body = b'{"choices": [{"text": "half of it'
            elif 'html' in faults:
                body, kind = b'<html><body>Welcome to our network</body></html>', 'text/html'
            elif 'empty' in faults:
                body = b'{}'
            elif 'huge' in faults:
                body = body[:-1] + b', "more": "' + b'x' * int(faults['huge']) + b'"}'
            elif 'deep' in faults:
                body = b'[' * int(faults['deep']) + b']' * int(faults['deep'])
            elif 'bad_utf8' in faults:
                body = body.replace(b'@bad@', b'\xff\xc0\x80')
            elif 'bomb' in faults:
                body = gzip_bomb(int(faults['bomb']))
                more['Content-Encoding'] = 'gzip'
        if 'cut_body' in faults:
            head = 'HTTP/1.1 %d OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n' % (status, kind, len(body))
            await self.write(head.encode() + body[:len(body) // 2])
            return False
        if 'slow' in faults:
            head = 'HTTP/1.1 %d OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n' % (status, kind, len(body))
            for b in head.encode() + body:
                await self.write(bytes([b]))
                await self.sleep(float(faults['slow']))
            return True
        await self.answer(status, body, more, kind)
        return 'close_idle' not in faults

    async def event(self, e, text):
        data = b'data: ' + text + b'\n\n'
        await self.write(b'%x\r\n%s\r\n' % (len(data), data))
        e['events'] += 1

    async def stream(self, e, answer, faults, more):
        body = e['body']
        chunks = [json.dumps(c).encode() for c in fake_model.chunks(answer, 'messages' in body)]
        if (body.get('stream_options') or {}).get('include_usage') and 'usage' in answer:
            last = {k: answer[k] for k in ('id', 'created', 'model', 'usage')}
            chunks.append(json.dumps(dict(last, object='chat.completion.chunk', choices=[])).encode())
        head = ['HTTP/1.1 200 OK', 'Content-Type: text/event-stream; charset=utf-8', 'Transfer-Encoding: chunked']
        await self.write('\r\n'.join(head + ['%s: %s' % h for h in more.items()]).encode('latin-1') + b'\r\n\r\n')
        stop = next((f for f in ('cut_stream', 'end_stream', 'stall', 'garbage_stream', 'error_in_stream') if f in faults), None)
        for i, c in enumerate(chunks):
            if stop and i >= int(faults[stop] or 0):
                if stop == 'cut_stream':
                    return False
                if stop == 'stall':
                    await self.gone.wait()
                    raise Gone
                if stop == 'end_stream':
                    break
                if stop == 'garbage_stream':
                    await self.event(e, b'{"choices": [{')
                else:
                    await self.event(e, json.dumps({'error': {'message': faults.get('message', 'the engine died'), 'type': 'server_error', 'code': 500}}).encode())
                stop = None
            if 'slow' in faults:
                await self.sleep(float(faults['slow']))
            await self.event(e, c.replace(b'@bad@', b'\xff\xc0\x80'))
        if stop != 'end_stream':
            await self.event(e, b'[DONE]')
        await self.write(b'0\r\n\r\n')
        return 'close_idle' not in faults


async def main():
    p = argparse.ArgumentParser()
    p.add_argument('--secret')
    p.add_argument('--auth-header', default='Authorization')
    p.add_argument('--models')
    p.add_argument('--name', default='')
    p.add_argument('--port', type=int, default=0)
    p.add_argument('--tls', nargs=2)
    options = p.parse_args()
    context = None
    if options.tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*options.tls)
    loop = asyncio.get_running_loop()
    state = State(options)
    server = await loop.create_server(lambda: Connection(state, False), '127.0.0.1', options.port, ssl=context, backlog=1024)
    control = await loop.create_server(lambda: Connection(state, True), '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], control.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
