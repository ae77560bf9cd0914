# An endpoint with OpenAI's interface that does what the first part of its path says: /hang/v1/completions
# never responds.  One process, without threads; it logs to a file, a line for each event: time, connection,
# event.
package Endpoint;
use strict;
use warnings;
use IO::Select;
use IO::Socket::INET;
use JSON::PP ();
use POSIX ();
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

sub new
{
	my ($class, $log) = @_;
	my $listen = IO::Socket::INET->new(LocalAddr => '127.0.0.1', Listen => 512, ReuseAddr => 1, Blocking => 0) or die "endpoint: $!";
	my $self = bless { port => $listen->sockport, log => $log, parent => $$ }, $class;
	open(my $f, '>', $log) or die "$log: $!";
	close $f;
	$self->{pid} = fork;
	if ($self->{pid} == 0)
	{
		open(STDOUT, '>', '/dev/null');
		eval { serve($listen, $log) };
		print STDERR "endpoint: $@" if $@;
		POSIX::_exit(1);
	}
	return $self;
}

sub url { return "http://127.0.0.1:$_[0]{port}/$_[1]/v1"; }

sub stop
{
	my ($self) = @_;
	return if !$self->{pid} || $self->{parent} != $$;
	kill 9, $self->{pid};
	waitpid($self->{pid}, 0);
	$self->{pid} = 0;
	return;
}

sub DESTROY { local ($?, $!, $@); $_[0]->stop; return; }

# Return [time, connection, event, ...]; filtered by event, and by a path's first part.
sub events
{
	my ($self, $event, $what) = @_;
	open(my $f, '<', $self->{log}) or die;
	my @all = map { chomp; [ split / /, $_, 5 ] } <$f>;
	return grep { (!defined $event || $_->[2] eq $event) && (!defined $what || $_->[3] eq $what) } @all;
}

sub requests { my ($self, $what) = @_; return scalar(my @e = $self->events('request', $what)); }

# ---- the process ----

my ($log, %conn, $select, $n_conn, %seen, @due);

sub note
{
	my (@what) = @_;
	syswrite $log, sprintf("%.6f %s\n", time, join(' ', @what));
	return;
}

sub shut
{
	my ($c, $why) = @_;
	note($c->{id}, $why, $c->{what} // '-');
	$select->remove($c->{s});
	delete $conn{ $c->{s} };
	close $c->{s};
	return;
}

sub put
{
	my ($c, $bytes) = @_;
	$c->{out} .= $bytes;
	flush_out($c);
	return;
}

sub flush_out
{
	my ($c) = @_;
	while (length $c->{out})
	{
		my $n = syswrite $c->{s}, $c->{out};
		last if !defined $n;
		substr($c->{out}, 0, $n) = '';
	}
	return;
}

sub respond
{
	my ($c, $status, $body, @headers) = @_;
	put($c, "HTTP/1.1 $status Whatever\r\nContent-Type: application/json\r\n" . join('', map { "$_\r\n" } @headers) . 'Content-Length: ' . length($body) . "\r\n\r\n$body");
	return;
}

sub fault { return JSON::PP::encode_json({ error => { message => $_[0], type => 'fault' } }); }

sub completion
{
	my ($q) = @_;
	my @p = ref $q->{prompt} ? @{ $q->{prompt} } : ($q->{prompt} // '');
	return { id => 'c', object => 'text_completion', model => $q->{model},
		choices => [ map { { index => $_, text => uc $p[$_], finish_reason => 'stop' } } 0 .. $#p ],
		usage => { prompt_tokens => 3, completion_tokens => 2, total_tokens => 5 } };
}

sub event { return 'data: ' . JSON::PP::encode_json($_[0]) . "\n\n"; }

sub piece
{
	my ($q, $text, $reason) = @_;
	return event({ id => 'c', object => 'text_completion', model => $q->{model}, choices => [ { index => 0, text => $text, finish_reason => $reason } ] });
}

sub begin_stream { put($_[0], "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"); return; }

sub answer
{
	my ($c, $q) = @_;
	return respond($c, 200, JSON::PP::encode_json(completion($q))) if !$q->{stream};
	begin_stream($c);
	put($c, piece($q, $_, undef)) for map { uc } $q->{prompt} =~ /(\S+\s*)/g;
	put($c, piece($q, '', 'stop') . "data: [DONE]\n\n");
	return shut($c, 'end');
}

# The behaviour of each path.
my %does = (
	ok => \&answer,
	hang => sub { },
	# only prompts that ask for it
	some => sub { my ($c, $q) = @_; return $q->{prompt} =~ /hang/ ? undef : answer($c, $q); },
	# a stream that begins, and never ends
	begin => sub { my ($c, $q) = @_; begin_stream($c); return put($c, piece($q, 'one ', undef) . piece($q, 'two ', undef)); },
	late => sub { my ($c, $q) = @_; push @due, [ time + 0.03, $c, sub { respond($c, 200, JSON::PP::encode_json(completion($q))) } ]; return; },
	cut => sub { my ($c) = @_; put($c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{\"id\": "); return shut($c, 'end'); },
	slam => sub { return shut($_[0], 'end'); },
	cutstream => sub { my ($c, $q) = @_; begin_stream($c); put($c, piece($q, 'half ', undef)); return shut($c, 'end'); },
	garbage => sub { return respond($_[0], 200, 'this is no JSON'); },
	nothing => sub { my ($c, $q) = @_; return respond($c, 200, JSON::PP::encode_json({ %{ completion($q) }, choices => [] })); },
	binary => sub { return put($_[0], pack('C*', map { $_ * 7 % 256 } 0 .. 2000)); },
	e500 => sub { return respond($_[0], 500, fault('inside')); },
	e400 => sub { return respond($_[0], 400, fault('not like this')); },
	e401 => sub { return respond($_[0], 401, fault('who are you, Bearer s3cret-of-mine?')); },
	# the secret was valid once
	lapsed => sub { my ($c, $q) = @_; return $seen{lapsed}++ ? respond($c, 401, fault('no more')) : answer($c, $q); },
	e429 => sub { return respond($_[0], 429, fault('too many'), 'Retry-After: 0'); },
	# each prompt is refused once
	once429 => sub { my ($c, $q) = @_; return $seen{"429 $q->{prompt}"}++ ? answer($c, $q) : respond($c, 429, fault('too many'), 'Retry-After: 0'); },
	once503 => sub { my ($c, $q) = @_; return $seen{"503 $q->{prompt}"}++ ? answer($c, $q) : respond($c, 503, fault('busy')); },
	away => sub { return respond($_[0], 302, '', 'Location: /ok/v1/completions'); },
	loris => sub {
		my ($c, $q) = @_;
		my $text = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n";
		put($c, $text);
		my $more;
		$more = sub { put($c, ' '); push @due, [ time + 0.02, $c, $more ]; };
		return $more->();
	},
	flood => sub {
		my ($c, $q) = @_;
		begin_stream($c);
		my $more;
		$more = sub { put($c, piece($q, 'x' x 30000, undef)) if length $c->{out} < 1000000; push @due, [ time, $c, $more ]; };
		return $more->();
	});

sub take_requests
{
	my ($c) = @_;
	while ($c->{in} =~ /^(\w+) \/(\w+)\/v1\/(\S*) HTTP\/1\.1\r\n(.*?)\r\n\r\n/s)
	{
		my ($method, $what, $path, $headers, $head) = ($1, $2, $3, $4, length $&);
		my ($length) = $headers =~ /^content-length: *(\d+)/mi;
		return if length $c->{in} < $head + ($length // 0);
		my $body = substr($c->{in}, $head, $length // 0);
		substr($c->{in}, 0, $head + ($length // 0)) = '';
		$c->{what} = $what;
		note($c->{id}, 'request', $what, "$method $path $body");
		my $q = $length ? JSON::PP::decode_json($body) : {};
		($does{$what} // sub { respond($_[0], 404, fault('no such path')) })->($c, $q);
		return if !$conn{ $c->{s} };
	}
	return;
}

sub look
{
	my ($s) = @_;
	my $c = $conn{$s} or return;
	my $n = sysread $s, $c->{in}, 65536, length $c->{in};
	return take_requests($c) if $n;
	return if !defined $n && $!{EAGAIN};
	return shut($c, 'closed');
}

sub serve
{
	my ($listen, $file) = @_;
	open($log, '>>', $file) or die;
	$SIG{PIPE} = 'IGNORE';
	$SIG{ALRM} = 'DEFAULT';
	$select = IO::Select->new($listen);
	while (1)
	{
		my @more = grep { length $_->{out} } values %conn;
		for my $s ($select->can_read(@due || @more ? 0.002 : 1))
		{
			if ($s != $listen)
			{
				look($s);
				next;
			}
			while (my $new = $listen->accept)
			{
				$new->blocking(0);
				setsockopt($new, IPPROTO_TCP, TCP_NODELAY, 1);
				$conn{$new} = { s => $new, id => ++$n_conn, in => '', out => '' };
				$select->add($new);
				note($n_conn, 'open', '-');
			}
		}
		flush_out($_) for grep { $conn{ $_->{s} } } @more;
		my $now = time;
		my @ripe = grep { $_->[0] <= $now } @due;
		@due = grep { $_->[0] > $now } @due;
		for my $d (@ripe)
		{
			$d->[2]->() if $conn{ $d->[1]{s} };
		}
	}
	return;
}

1;
