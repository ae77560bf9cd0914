# The HTTP server and hostile clients: heads that two parsers could read differently, bytes that come one by
# one, more connections than places, wrong keys.
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use IPC::Run ();
use Socket qw(SOL_SOCKET SO_RCVBUF inet_aton pack_sockaddr_in);
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);
use VllmTest;

plan skip_all => 'vllm_pg_http was not built here' if !-x "$ENV{VLLM_PG_LIBDIR}/vllm_pg_http";
local $SIG{PIPE} = 'IGNORE';
# more sockets than a shell usually allows
my $sockets = system("prlimit --pid $$ --nofile=4096: >/dev/null 2>&1") == 0;

my $port = PostgreSQL::Test::Cluster::get_free_port();
my $node = new_node('http_raw', "vllm.engine_args = '--fake'\nvllm.http_host = '127.0.0.1'\nvllm.http_port = $port\n");
$node->safe_psql('postgres', 'CREATE ROLE vllm_http LOGIN NOINHERIT; CREATE ROLE app; GRANT app TO vllm_http');
my %key = map { $_ => $node->safe_psql('postgres', "SELECT llm_create_api_key('$_', 'app')") } qw(a b c);

sub connect_from
{
	my ($from) = @_;
	return IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port, LocalAddr => $from // '127.0.0.1', Timeout => 20);
}

# Return the response to these pieces, until the server closes the connection.
sub raw
{
	my ($from, @pieces) = @_;
	my $s = connect_from($from) or return '';
	my $select = IO::Select->new($s);
	my $all = '';
	for (@pieces)
	{
		print $s $_;
		$s->flush;
		usleep(300) if @pieces > 1;
	}
	while ($select->can_read(20) && sysread($s, my $piece, 65536)) { $all .= $piece }
	return $all;
}

sub statuses { return join ' ', $_[0] =~ /HTTP\/1\.1 (\d+) /g }

sub answer_of
{
	my ($who, $from, $body) = @_;
	$body //= '{"prompt": "x", "max_tokens": 1}';
	return raw($from, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer $who\r\n"
		  . "Content-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n$body");
}

# Send a request with a key without its last n bytes, on a connection of its own.
sub slow_body
{
	my ($who, $n, $body) = @_;
	$body //= '{"prompt": "x", "max_tokens": 1}';
	my $s = connect_from() or return;
	print $s "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer $key{$who}\r\n"
	  . "Content-Type: application/json\r\nContent-Length: " . length($body) . "\r\n\r\n" . substr($body, 0, length($body) - $n);
	$s->flush;
	return $s;
}

# Count the responses by status.
sub count_statuses
{
	my %n;
	$n{ statuses(scalar(<$_>) // '') }++ for @_;
	return join(' ', map { "$_:$n{$_}" } sort keys %n);
}

# Run code while key look-ups are slow.
sub with_slow_keys
{
	my ($do) = @_;
	my $sleeps = IPC::Run::start([ 'psql', '-XAtq', '-d', $node->connstr('postgres'), '-c', 'BEGIN; LOCK TABLE vllm.api_key; SELECT pg_sleep(0.8); COMMIT' ], '<', '/dev/null', '>', '/dev/null');
	until_sql($node, q{SELECT count(*) > 0 FROM pg_locks WHERE relation = 'vllm.api_key'::regclass AND mode = 'AccessExclusiveLock' AND granted});
	my @got = $do->();
	$sleeps->finish;
	return @got;
}

sub new_settings
{
	my ($settings) = @_;
	$node->append_conf('postgresql.conf', $settings);
	$node->reload;
	usleep(500_000);
	return until_true(sub { statuses(raw('127.0.0.1', "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) eq '200' });
}
ok(until_true(sub { statuses(raw('127.0.0.1', "GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")) eq '200' }), 'there is a door');

# ---- heads and bodies that can be parsed in two ways; each followed by another request, which must not be
# served ----

my $get = "GET /load HTTP/1.1\r\n";
my $json = "Authorization: Bearer $key{a}\r\nContent-Type: application/json\r\n";
my $post = "POST /v1/completions HTTP/1.1\r\nHost: x\r\n$json";
my $hidden = "GET /version HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
for (
	[ 'two hosts', "${get}Host: x\r\nHost: y\r\n\r\n" ], [ 'the same host twice', "${get}Host: x\r\nHost: x\r\n\r\n" ], [ 'no host', "$get\r\n" ],
	[ 'two hosts in one', "${get}Host: x,y\r\n\r\n" ], [ 'a path in the host', "${get}Host: x/y\r\n\r\n" ], [ 'a user in the host', "${get}Host: a\@b\r\n\r\n" ],
	[ 'a space before the colon', "${post}Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n" ], [ 'a tab before the colon', "${post}Content-Length\t: 2\r\n\r\n{}" ],
	[ 'a folded line', "${get}Host: x\r\nX-A: b\r\n c\r\n\r\n" ], [ 'a folded length', "${post}X: y\r\n\tContent-Length: 2\r\n\r\n{}" ], [ 'a fold first', "$get Host: x\r\n\r\n" ],
	[ 'length and chunks', "${post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ], [ 'two lengths', "${post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}" ],
	[ 'the same length twice', "${post}Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}" ], [ 'a list of lengths', "${post}Content-Length: 2, 2\r\n\r\n{}" ],
	(map { [ "a length of '$_'", "${post}Content-Length: $_\r\n\r\n{}" ] } '+2', '-2', '0x2', '2 2', '', '2.', '9999999999999999999', "2\x0b"),
	(map { [ "a coding of '$_'", "${post}Transfer-Encoding: $_\r\n\r\n0\r\n\r\n" ] } 'identity', 'gzip, chunked', 'chunked, chunked', 'xchunked', '"chunked"', 'chunked;a=b', ''),
	[ 'chunked twice', "${post}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ], [ 'chunks in HTTP/1.0', ($post =~ s/1\.1/1.0/r) . "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" ],
	[ 'a bare line feed', "${get}Host: x\nX: y\r\n\r\n" ], [ 'only line feeds', "GET /load HTTP/1.1\nHost: x\n\n" ], [ 'a bare carriage return', "${get}Host: x\rX: y\r\n\r\n" ], [ 'a line feed at the end', "${get}Host: x\r\n\n" ],
	[ 'NUL in a value', "${get}Host: x\r\nX: a\0b\r\n\r\n" ], [ 'NUL in a name', "${get}Host: x\r\nX\0: a\r\n\r\n" ], [ 'NUL in a length', "${post}Content-Length: 2\0\r\n\r\n{}" ], [ 'a control character', "${get}Host: x\r\nX: a\x01b\r\n\r\n" ],
	[ 'DEL', "${get}Host: x\r\nX: a\x7fb\r\n\r\n" ], [ 'a name of another alphabet', "${get}Host: x\r\n\xc3\xa4: b\r\n\r\n" ], [ 'no name', "${get}Host: x\r\n: b\r\n\r\n" ], [ 'no colon', "${get}Host: x\r\nabc\r\n\r\n" ], [ 'brackets in a name', "${get}Host: x\r\nX[]: b\r\n\r\n" ],
	[ 'a target with another host', "GET http://y/load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'with another port', "GET http://x:1/load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'without a host', "GET http:///load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'with a user', "GET http://u\@x/load HTTP/1.1\r\nHost: u\@x\r\n\r\n" ],
	[ 'a target that is no path', "GET load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'that has a fragment', "GET /load#a HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'that ends early', "GET /load%00x HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'that is badly encoded', "GET /load%2 HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'of other bytes', "GET /l\xc3\xa4 HTTP/1.1\r\nHost: x\r\n\r\n" ],
	[ 'a tunnel', "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'an asterisk', "GET * HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'two spaces', "GET  /load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'a space behind', "GET /load HTTP/1.1 \r\nHost: x\r\n\r\n" ], [ 'a tab', "GET\t/load HTTP/1.1\r\nHost: x\r\n\r\n" ], [ 'a space first', " GET /load HTTP/1.1\r\nHost: x\r\n\r\n" ],
	[ 'no version', "GET /load\r\nHost: x\r\n\r\n" ], [ 'a small version', "GET /load http/1.1\r\nHost: x\r\n\r\n" ], [ 'two empty lines first', "\r\n\r\n${get}Host: x\r\n\r\n" ], [ 'TLS', "\x16\x03\x01\x02\x00\x01\x00" ],
	[ 'two keys', "${post}Authorization: Bearer $key{b}\r\nContent-Length: 2\r\n\r\n{}" ], [ 'two types', "${post}Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}" ],
	(map { [ "a chunk of '" . s/[^ -~]/?/gr . "'", "${post}Transfer-Encoding: chunked\r\n\r\n$_" ] } "2\n{}\r\n0\r\n\r\n", " 2\r\n{}\r\n0\r\n\r\n", "2 \r\n{}\r\n0\r\n\r\n", "0x2\r\n{}\r\n0\r\n\r\n", "-2\r\n{}\r\n", "\r\n", "2\r\n{}0\r\n\r\n", "2\r\n{}x\r\n0\r\n\r\n",
		"100000002\r\n{}\r\n0\r\n\r\n", "2;a\nb\r\n{}\r\n0\r\n\r\n", "2\r\n{}\r\n0\r\nA : b\r\n\r\n", "2\r\n{}\r\n0\r\nA: b\n\r\n", "2\r\n{}\r\n0\r\n b: c\r\n\r\n", "2\r\n{}\r\n0\r\n\n"),
	[ 'HTTP/2', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505 ], [ 'HTTP/1.2', "GET /load HTTP/1.2\r\nHost: x\r\n\r\n", 505 ], [ 'a long line', 'GET /' . 'x' x 9000 . " HTTP/1.1\r\nHost: x\r\n\r\n", 414 ], [ 'a long header', "${get}Host: x\r\nX: " . 'x' x 40000 . "\r\n\r\n", 431 ],
	[ 'many headers', "${get}Host: x\r\n" . "X: y\r\n" x 200 . "\r\n", 431 ], [ 'an expectation', "${get}Host: x\r\nExpect: a pony\r\n\r\n", 417 ])
{
	my ($name, $text, $status) = @$_;
	my $got = raw('127.0.0.1', "$text$hidden");
	is(statuses($got), $status // 400, "$name: refused, and the end");
	like($got, qr/\r\nConnection: close\r\n.*\{"error":\{"message":".+","type":"\w+","param":null,"code":\d+\}\}$/s, '... in words') if !$status;
}

# ---- well-formed requests ----

is(statuses(raw(undef, "\r\nGET http://X:80/load?a=b HTTP/1.1\r\nHost: x:80\r\nX-Empty:\r\nX: \xc3\xa4\t b \r\n\r\n$hidden")), '200 200', 'an absolute target with its own host');
is(statuses(raw(undef, "${post}Transfer-Encoding: Chunked\r\n\r\n2;name=\"value\"\r\n{}\r\n000\r\nX-Trailer: y\r\n\r\n$hidden")), '400 200', 'chunks with extensions and trailers');
is(statuses(raw(undef, "GET /load HTTP/1.0\r\nConnection: keep-alive\r\n\r\n$hidden")), '200', 'HTTP/1.0 is closed behind its answer, whatever it asks for');
like(raw(undef, "HEAD /load HTTP/1.1\r\nHost: x\r\nConnection: foo , Close\r\n\r\n$hidden"), qr/^HTTP\/1.1 200 OK\r\n.*Content-Length: 17\r\n\r\n$/s, 'HEAD has no body');
{
	my $s = connect_from();
	print $s "${post}Expect: 100-continue\r\nConnection: close\r\nContent-Length: 2\r\n\r\n";
	my $first = <$s> // '';
	print $s '{}';
	is(statuses(join('', $first, <$s>)), '100 400', '100-continue');
}
is(statuses(raw(undef, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n", '{}')), '401', '... not for who has no key');
is(statuses(raw(undef, "${post}Content-Length: 2\r\n\r\n{}" x 20 . $hidden)), ('400 ' x 20) . '200', 'requests one behind the other');
my $body = '{"prompt": "a b", "max_tokens": 2}';
my $whole = "${post}Transfer-Encoding: chunked\r\n\r\n" . sprintf("%x\r\n%s\r\n%x\r\n%s\r\n0\r\nA: b\r\n\r\n", 9, substr($body, 0, 9), length($body) - 9, substr($body, 9));
is(statuses(raw(undef, split(//, $whole . $hidden))), '200 200', 'byte by byte');
my $wrong = 0;
for my $at (1 .. length($whole) - 1)
{
	$wrong++ if statuses(raw('127.0.0.1', substr($whole, 0, $at), substr($whole, $at) . $hidden)) ne '200 200';
}
is($wrong, 0, 'in two pieces, cut at each byte');

# ---- escapes in a path, which a filter before the server may decode or not ----

is(statuses(raw(undef, "GET /v1%2Fmodels HTTP/1.1\r\nHost: x\r\n${json}\r\nGET /%6coad HTTP/1.1\r\nHost: x\r\n\r\nGET /v1/responses/a%2fcancel HTTP/1.1\r\nHost: x\r\n${json}\r\n$hidden")), '404 404 404 200', 'a path is written as it is');
like(raw(undef, "GET /v1/models/a%2Fb%20c HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${json}\r\n"), qr/^HTTP\S+ 404 .*"a\/b c/s, '... but for a name');

# ---- many fast clients at once ----

{
	my @at_once = with_slow_keys(sub { map { slow_body('a', 0) } 1 .. 300 });
	is(count_statuses(@at_once), '200:300', 'whose requests come whole loses no place');
}

# ---- timeouts ----

ok(new_settings("vllm.http_header_timeout = 2\nvllm.http_body_timeout = 2\nvllm.http_idle_timeout = 20\n"), 'short times');
for ([ 'headers', $get ], [ 'a body', "${post}Content-Length: 1000\r\n\r\n" ], [ 'chunks', "${post}Transfer-Encoding: chunked\r\n\r\n" ])
{
	my ($name, $text) = @$_;
	my $s = connect_from();
	my $start = time;
	my $line;
	print $s $text;
	while (time - $start < 15 && !defined $line)
	{
		syswrite($s, $name eq 'chunks' ? "1\r\nx\r\n" : 'x');
		$line = <$s> if IO::Select->new($s)->can_read(0.2);
	}
	like($line // '', qr/ 408 /, "$name that come by bytes have an end");
	cmp_ok(time - $start, '<', 10, '... in time');
}
{
	my $s = connect_from();
	is(scalar <$s>, undef, 'who says nothing is left without a word');
}

# ---- more slow clients than places ----

# Open n connections from each of these addresses, with the beginning of a request.
sub slow_ones
{
	my ($n, @from) = @_;
	my @slow;
	for my $i (1 .. $n)
	{
		for (@from)
		{
			my $s = connect_from($_) or next;
			syswrite($s, "GET /load HTTP/1.1\r\nHost: x\r\nX: ");
			push @slow, $s;
		}
	}
	return @slow;
}

sub longest_answer
{
	my ($slow, @from) = @_;
	my $longest = 0;
	for (1 .. 5)
	{
		for my $from (@from)
		{
			syswrite($_, 'x') for @$slow;
			my $start = time;
			my $got = answer_of($key{a}, $from);
			diag("no answer: $got"), return 1000 if statuses($got) ne '200';
			$longest = time - $start if time - $start > $longest;
		}
	}
	return $longest;
}

SKIP:
{
	skip 'too few files may be open', 6 if !$sockets;
	ok(new_settings("vllm.http_header_timeout = 60\n"), 'a longer time');
	my @slow = slow_ones(1100, '127.0.0.1');
	my $longest = longest_answer(\@slow, '127.0.0.1', '127.0.0.9');
	cmp_ok($longest, '<', 5, 'beside 1,100 slow clients of one address who has a key is answered, also at this address');
	figure('beside %d slow clients of one address: %.0f ms at most', scalar @slow, $longest * 1000);
	my %said;
	for (@slow) { $said{ IO::Select->new($_)->can_read(0) ? statuses(scalar(<$_>) // '') : 'waits' }++ }
	# a client whose bytes have just come does not count as slow
	cmp_ok($said{waits} // 0, '<=', 140, 'of the slow ones there is a share');
	# a client that sends to a closed connection may not be able to read the reason
	cmp_ok(($said{503} // 0) + ($said{''} // 0), '>=', 900, 'the others were told to leave');
	figure('of %d: %s', scalar @slow, join(', ', map { "'$_' $said{$_}" } sort keys %said));
	close $_ for @slow;
	@slow = slow_ones(100, map { "127.0.0.$_" } 2 .. 13);
	$longest = longest_answer(\@slow, '127.0.0.2', '127.0.0.77');
	cmp_ok($longest, '<', 5, 'beside 1,200 of twelve addresses likewise');
	figure('beside %d slow clients of twelve addresses: %.0f ms at most', scalar @slow, $longest * 1000);
	close $_ for @slow;
}
ok(new_settings("vllm.http_header_timeout = 6\nvllm.http_clients_per_address = 0\nvllm.http_max_clients = 64\nvllm.http_reserved_clients = 60\n"), 'fewer places, no share: behind a proxy');
my @slow = slow_ones(80, '127.0.0.1');
cmp_ok(longest_answer(\@slow, '127.0.0.1'), '<', 5, 'who has a key is answered');
my $start = time;
my @said = map { statuses(scalar(<$_>) // '') } @slow;
cmp_ok(scalar(grep { $_ eq '408' } @said), '>=', 40, 'the slow ones that are left end with 408');
is(scalar(grep { $_ !~ /^(408|503|)$/ } @said), 0, 'or had to leave before');
cmp_ok(time - $start, '<', 20, 'in time');
close $_ for @slow;

# ---- clients that don't read their responses ----

SKIP:
{
	skip 'too few files may be open', 1 if !$sockets;
	my $requests = "GET /nope HTTP/1.1\r\nHost: x\r\n\r\n" x 4000;
	my $deaf = sub {
		my $s = IO::Socket::INET->new(Proto => 'tcp') or return;
		setsockopt($s, SOL_SOCKET, SO_RCVBUF, 2048);
		$s->connect(pack_sockaddr_in($port, inet_aton('127.0.0.1'))) or return;
		$s->blocking(0);
		for (1 .. 20) { syswrite($s, $requests) // last }
		return $s;
	};
	@slow = map { $deaf->() // () } 1 .. 400;
	for (1 .. 3)
	{
		for my $s (@slow) { 1 while syswrite($s, $requests) }
	}
	cmp_ok(longest_answer([], '127.0.0.1'), '<', 5, 'beside clients that read none of their refusals who has a key is answered');
	close $_ for @slow;
}

# ---- keys that hold places with incomplete bodies ----

ok(new_settings("vllm.http_max_clients = 16\nvllm.http_reserved_clients = 8\nvllm.http_body_timeout = 20\n"), 'sixteen places');
@slow = ((map { slow_body('a', 5) } 1 .. 8), (map { slow_body('b', 5) } 1 .. 8));
usleep(300_000);
like(statuses(answer_of($key{c})), qr/^(503|)$/, 'nobody leaves in the middle of a request with a key');
print $_ '": 1}' for @slow;
is(count_statuses(@slow), '200:16', 'and all of them are answered');
@slow = map { slow_body('a', 5) } 1 .. 15;
my @refused;
until_true(sub { @refused = grep { IO::Select->new($_)->can_read(0) } @slow; @refused >= 3 });
is(count_statuses(@refused), '429:3', 'one key has three quarters of the places');
is(statuses(answer_of($key{c})), '200', 'so another one is answered');
@slow = grep { my $s = $_; !grep { $s == $_ } @refused } @slow;
print $_ '": 1}' for @slow;
is(count_statuses(@slow), '200:12', '... and they, too');

# ---- memory of bodies ----

ok(new_settings("vllm.http_max_body = 1MB\nvllm.http_body_memory = 1MB\nvllm.http_body_timeout = 2\n"), 'little memory');
my $large = sub { return sprintf('{"prompt": "%s", "user": "%s"}', $_[0], 'x' x 700_000) };
@slow = slow_body('a', 0, $large->('@delay:4000 x'));
usleep(500_000);
my $late = answer_of($key{c}, undef, $large->('x'));
like($late, qr/^HTTP\S+ 503 .*\r\nRetry-After: 1\r\n.*vllm.http_body_memory/s, 'a body for which there is no memory in time');
is(statuses(answer_of($key{c})), '200', 'a small one needs none');
is(count_statuses(@slow), '200:1', 'the one in hand is answered');
is(statuses(answer_of($key{c}, undef, $large->('x'))), '200', 'and has left its memory');
is(statuses(raw(undef, $post . "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" . sprintf("%x\r\n%s\r\n0\r\n\r\n", length($large->('x')), $large->('x')))), '200', '... also for chunks') for 1 .. 2;

# libpq keeps the memory of the largest statement as long as the connection lasts
my $connections = q{(SELECT count(*) FROM pg_stat_activity WHERE usename = 'vllm_http')};
my $before = $node->safe_psql('postgres', "SELECT $connections");
is(statuses(answer_of($key{c}, undef, sprintf('{"prompt": "x", "max_tokens": 1, "user": "%s"}', 'x' x (1024 * 1024 - 44)))), '200', 'a body of 1 MB');
ok(until_sql($node, "SELECT $connections = $before - 1"), '... whose connection is not kept');

# ---- responses that are not read ----

my @deaf = map {
	my $s = IO::Socket::INET->new(Proto => 'tcp');
	setsockopt($s, SOL_SOCKET, SO_RCVBUF, 2048);
	$s->connect(pack_sockaddr_in($port, inet_aton('127.0.0.1')));
	my $b = '{"prompt": "@big:900000", "max_tokens": 1}';
	print $s "${post}Content-Length: " . length($b) . "\r\n\r\n$b";
	$s->flush;
	$s
} 1 .. 1;
usleep(500_000);
like(answer_of($key{a}, undef, '{"prompt": "@big:900000", "max_tokens": 1}'), qr/^HTTP\S+ 503 .*\r\nRetry-After: 1\r\n.*large answers in hand/s, 'an answer for which there is no memory in time');
is(statuses(answer_of($key{a})), '200', 'a small one needs none');
close $_ for @deaf;
is(statuses(answer_of($key{a}, undef, '{"prompt": "@big:900000", "max_tokens": 1}')), '200', 'and who leaves gives it back');

# ---- one key can't have all connections to the database ----

ok(new_settings("vllm.http_max_connections = 4\nvllm.http_queue_timeout = '1s'\nvllm.http_max_clients = 1024\nvllm.http_reserved_clients = 256\nvllm.http_body_timeout = 20\n"), 'four connections');
@slow = map { slow_body('a', 0, '{"prompt": "@delay:4000 x", "max_tokens": 1}') } 1 .. 8;
usleep(500_000);
is(statuses(answer_of($key{c})), '200', 'beside a key that asks for more than all of them another one is answered');
is(count_statuses(@slow), '200:3 503:5', 'it has three quarters');
ok(new_settings("vllm.http_anonymous_role = 'app'\nvllm.http_queue_timeout = '20s'\n"), 'a role for everybody');
@slow = map {
	my $s = connect_from();
	my $b = '{"prompt": "@delay:1500 x", "max_tokens": 1}';
	print $s "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: " . length($b) . "\r\n\r\n$b";
	$s->flush;
	$s
} 1 .. 12;
usleep(300_000);
$start = time;
is(statuses(answer_of($key{c})), '200', 'nor can those without a key');
push @slow, map { slow_body('b', 0, '{"prompt": "@delay:1500 x", "max_tokens": 1}') } 1 .. 2;
usleep(100_000);
is(statuses(answer_of($key{c})), '200', 'and of those who wait the first is who has least');
cmp_ok(time - $start, '<', 4, '... soon');
is(count_statuses(@slow), '200:14', 'all are answered');
ok(new_settings("vllm.http_anonymous_role = ''\nvllm.http_max_connections = 16\n"), 'as before');

# ---- idle connections of one key ----

SKIP:
{
	skip 'too few files may be open', 1 if !$sockets;
	for my $more ('', 'G')
	{
		my @idle = map {
			my $s = connect_from();
			print $s "GET /v1/models HTTP/1.1\r\nHost: x\r\n$json\r\n";
			$s->flush;
			$s
		} 1 .. 1024;
		my $answered = 0;
		for (@idle) { $answered++ if (scalar(<$_>) // '') =~ / 200 /; syswrite($_, $more) if $more ne '' }
		cmp_ok($answered, '>', 1000, 'one key opens all connections');
		# a remote client sends its head some time after it has connected
		my @come = map { connect_from() } 1 .. 40;
		usleep(100_000);
		my $b = '{"prompt": "x", "max_tokens": 1}';
		for (@come)
		{
			print $_ "POST /v1/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer $key{c}\r\nContent-Type: application/json\r\nContent-Length: " . length($b) . "\r\n\r\n$b";
			$_->flush;
		}
		is(count_statuses(@come), '200:40', 'others get through' . ($more ne '' ? ', also if it has begun its next heads' : ''));
		close $_ for @idle;
	}
}

# ---- requests without a key can't have all places ----

ok(new_settings("vllm.http_header_timeout = 30\nvllm.http_body_timeout = 30\nvllm.http_max_clients = 64\nvllm.http_reserved_clients = 60\nvllm.http_anonymous_role = 'app'\n"), 'a role for everybody');
@slow = map {
	my $s = connect_from();
	syswrite($s, "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{");
	$s
} 1 .. 4;
usleep(300_000);
is(statuses(answer_of('EMPTY')), '503', 'what is reserved is not for them');
is(statuses(answer_of($key{a})), '200', 'but for those with a key');
close $_ for @slow;
ok(until_true(sub { statuses(answer_of('EMPTY')) eq '200' }), 'until they have gone');

# ---- wrong keys ----

ok(new_settings("vllm.http_anonymous_role = ''\nvllm.http_wrong_keys = 5\nvllm.http_wrong_key_window = 4\nvllm.http_reserved_clients = 8\nvllm.http_queue_timeout = 0\n"), 'few tries');
is(count_statuses(with_slow_keys(sub { map { slow_body('a', 0) } 1 .. 8 })), '200:8', 'keys wait for their turn, though requests wait for no connection');
is(statuses(answer_of($key{b}, '127.0.0.5')), '200', 'a key that is known now');
is(join(' ', map { statuses(answer_of("sk-wrong$_", '127.0.0.5')) } 1 .. 7), '401 401 401 401 401 429 429', 'after some wrong keys an address is refused');
my $refused = answer_of('sk-wrong', '127.0.0.5');
like($refused, qr/\r\nRetry-After: [1-4]\r\n.*too many API keys that are not valid","type":"RateLimitError"/s, '... with the time that it has to wait');
is(statuses(answer_of($key{b}, '127.0.0.5')), '200', 'but not a key that was right before');
is(statuses(answer_of($key{c}, '127.0.0.5')), '429', 'one that is new here waits');
is(statuses(answer_of($key{c}, '127.0.0.6')), '200', 'another address has nothing to do with it');
is(statuses(answer_of($key{c}, '127.0.0.5')), '200', 'and makes it known');
$node->safe_psql('postgres', "SELECT llm_revoke_api_key('b')");
is(statuses(answer_of($key{b}, '127.0.0.5')) . ' ' . statuses(answer_of($key{b}, '127.0.0.5')), '401 429', 'a known key that is revoked is one no more');
sleep 5;
is(statuses(answer_of('sk-wrong', '127.0.0.5')), '401', 'the window ends');
@slow = map { connect_from('127.0.0.7') } 1 .. 30;
with_slow_keys(sub { print $_ "GET /v1/models HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer sk-wrong\r\n\r\n" for @slow });
is(count_statuses(@slow), '401:5 429:25', 'of many tries at once no more are looked at');
my $log = slurp_file($node->logfile);
is(() = $log =~ /127\.0\.0\.5 has sent 5 API keys that are not valid within 4 s/g, 1, 'one line in the log');
unlike($log, qr/sk-wrong|$key{a}|$key{b}|$key{c}/, '... without a key');

is($node->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE usename = 'vllm_http' AND state LIKE 'idle in%'}), 0, 'no transaction is left');
$node->stop('fast');
unlike(slurp_file($node->logfile), qr/PANIC|was terminated by signal|AddressSanitizer|runtime error/, 'a clean log');
done_testing();
