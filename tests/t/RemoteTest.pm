# An endpoint for tests of remote models: tests/remote/fake_endpoint.py, started, controlled and read.
#
#	my $e = RemoteTest->new(secret => 's3cret');
#	$e->url, $e->port		the base URL ("http://127.0.0.1:.../v1")
#	$e->fault(name => 'status', arg => 503, times => 2, path => '/v1/completions')
#	$e->log, $e->log('/v1/embeddings')	requests so far, as hashes; what they hold: fake_endpoint.py, entry()
#	$e->stats, $e->reset, $e->release, $e->control({ ... })
#	$e->stop			(and when it goes out of scope)
package RemoteTest;
use strict;
use warnings;
use File::Temp ();
use HTTP::Tiny;
use IPC::Open2;
use JSON::PP ();
use Time::HiRes ();

# tests/remote, from a checkout or where check.sh copied it
sub dir
{
	my ($dir) = grep { -f "$_/fake_endpoint.py" } ('remote', $ENV{TESTDATADIR} ? "$ENV{TESTDATADIR}/../work/remote" : (), 'tests/remote');
	return $dir // die 'where is tests/remote?';
}

# Without python3 there is nothing to start.
sub available
{
	return system("python3 -c 'import asyncio, ssl' >/dev/null 2>&1") == 0;
}

sub can_tls
{
	return system('openssl version >/dev/null 2>&1') == 0;
}

# options: secret, auth_header, models (comma-separated), name, port; tls => 1 (a certificate of its own:
# ->ca_file)
sub new
{
	my ($class, %o) = @_;
	my $self = bless { secret => $o{secret} }, $class;
	my @args = map { defined $o{$_} ? ("--" . s/_/-/r, $o{$_}) : () } qw(secret auth_header models name port);

	if ($o{tls})
	{
		$self->{tls} = File::Temp->newdir;
		my ($crt, $key) = map { "$self->{tls}/server.$_" } qw(crt key);
		system("openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test "
			  . "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout $key -out $crt 2>/dev/null") == 0
		  or die 'openssl made no certificate';
		chmod 0755, "$self->{tls}";
		$self->{ca_file} = $crt;
		push @args, '--tls', $crt, $key;
	}
	$self->{pid} = open2($self->{out}, $self->{in}, 'python3', dir() . '/fake_endpoint.py', @args);
	my $line = readline $self->{out};
	die 'the endpoint did not start' unless defined $line && $line =~ /^(\d+) (\d+)$/;
	@$self{qw(port control_port)} = ($1, $2);
	$self->{http} = HTTP::Tiny->new(timeout => 20, http_proxy => undef, all_proxy => undef);
	return $self;
}

sub port { return $_[0]{port} }
sub ca_file { return $_[0]{ca_file} }
sub url { return ($_[0]{tls} ? 'https' : 'http') . "://127.0.0.1:$_[0]{port}/v1" }

sub ask
{
	my ($self, $method, $path, $body) = @_;
	my $r = $self->{http}->request($method, "http://127.0.0.1:$self->{control_port}$path",
		defined $body ? { content => JSON::PP::encode_json($body) } : {});

	die "the endpoint's control said $r->{status}: $r->{content}" unless $r->{success};
	return JSON::PP::decode_json($r->{content});
}

sub control { my ($self, $what) = @_; return $self->ask('POST', '/_control', $what) }
sub fault { my ($self, %f) = @_; return $self->control({ faults => [ \%f ] }) }
sub reset { my ($self) = @_; return $self->ask('POST', '/_reset', {}) }
sub release { my ($self) = @_; return $self->ask('POST', '/_release', {}) }
sub stats { my ($self) = @_; return $self->ask('GET', '/_stats') }

sub log
{
	my ($self, $path) = @_;
	return grep { !defined $path || $_->{path} eq $path } @{ $self->ask('GET', '/_log') };
}

# Wait until the code returns true for the log, ten seconds at most; returns its last result.
sub wait_for
{
	my ($self, $code) = @_;
	my $got;

	for (1 .. 500)
	{
		$got = $code->($self->log) and last;
		Time::HiRes::sleep(0.02);
	}
	return $got;
}

sub stop
{
	my ($self) = @_;
	return unless defined $self->{pid};
	close $self->{in};
	close $self->{out};
	local $?;
	kill 'TERM', $self->{pid};
	waitpid $self->{pid}, 0;
	delete $self->{pid};
}

sub DESTROY { $_[0]->stop }

1;
