# The restrictions of the supervisor's programs: no new privileges, filtered system calls, no access to the
# server's files, environment and signals, no memory in core files.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

$ENV{PGPASSWORD} = 'a secret of the server';
my $port = PostgreSQL::Test::Cluster::get_free_port();
my $node = new_node('confined', "vllm.http_port = $port\n");
delete $ENV{PGPASSWORD};
ok(until_ready($node), 'the engine becomes ready');
my $sup = parent_of(engine_pid($node));

# Return the programs of the supervisor, by name.
sub programs
{
	my %found;
	for my $dir (glob '/proc/[0-9]*')
	{
		my ($pid) = $dir =~ /(\d+)$/;
		next if parent_of($pid) != $sup;
		# another program's link can't be read
		my ($name) = slurp_file("$dir/status") =~ /^Name:\s+(\S+)/m;
		$found{$name} = $pid;
	}
	return %found;
}

sub status_of
{
	my ($pid, $what) = @_;
	return slurp_file("/proc/$pid/status") =~ /^\Q$what\E:\s+(\S+)/m ? $1 : '';
}

sub log_has
{
	my ($re) = @_;
	return until_true(sub { slurp_file($node->logfile) =~ $re }, 20);
}

my @names = grep { -x "$ENV{VLLM_PG_LIBDIR}/$_" } qw(vllm_pg_engine vllm_pg_http vllm_pg_remote);
# this line is logged last
ok(log_has(qr/listening on/), 'the HTTP server listens') if grep { /http/ } @names;
ok(log_has(qr/the remote program is ready/), 'the remote program is ready') if grep { /remote/ } @names;
my %pid = programs();
# as other processes see it: Name has 15 characters
for my $name (@names)
{
	my $pid = $pid{ substr($name, 0, 15) };
	ok($pid, "$name runs");
	is(status_of($pid, 'NoNewPrivs'), 1, "$name gains no privileges");
	is(status_of($pid, 'Seccomp'), 2, "$name: system calls are filtered");
	# the HTTP server waits for SIGTERM and SIGINT
	like(status_of($pid, 'SigBlk'), $name eq 'vllm_pg_http' ? qr/^0+(?:4002)?$/ : qr/^0+$/, "$name: no signal of the server's is blocked");
	my ($soft) = slurp_file("/proc/$pid/limits") =~ /Max core file size\s+(\S+)/;
	is($soft, 0, "$name leaves no core");
	is(status_of($pid, 'Umask'), '0077', "$name: files that it makes are its user's");
  SKIP:
	{
		# as the same user, only for processes that allow it
		skip "$name hides it", 3 if !opendir(my $d, "/proc/$pid/fd");
		unlike(slurp_file("/proc/$pid/environ"), qr/PGPASSWORD|PGDATA|secret/, "$name: nothing of the server's environment");
		is(slurp_file("/proc/$pid/coredump_filter") =~ s/^0+|\s+//gr, '', "$name: and no memory in one");
		my $data = $node->data_dir;
		my @open = grep { /^\Q$data\E/ } map { readlink("/proc/$pid/fd/$_") // () } readdir $d;
		is("@open", '', "$name: no file of the database is open");
	}
}
my @told = slurp_file($node->logfile) =~ /system calls are filtered: \d+ rules/g;
is(scalar @told, scalar @names, 'each tells that it is so');
my $landlock = slurp_file($node->logfile) !~ /no Landlock here/;
SKIP:
{
	skip 'this kernel has no Landlock', 1 if !$landlock;
	@told = slurp_file($node->logfile) =~ /the memory of other processes is closed by Landlock/g;
	is(scalar @told, scalar @names, 'and that the memory of other processes is closed');
}
is($node->safe_psql('postgres', q{SELECT llm_generate('still works')}), 'STILL WORKS', 'the engine works');

# ---- settings ----

my ($ret, $out, $err) = $node->psql('postgres', q{ALTER SYSTEM SET vllm.seccomp = 'maybe'});
like($err, qr/invalid value for parameter "vllm.seccomp".*must be one of: on, off, require/s, 'values are checked');
SKIP:
{
	skip 'this kernel has no Landlock, which is required, too', 2 if !$landlock;
	restart_with($node, seccomp => 'require');
	is(status_of(engine_pid($node), 'Seccomp'), 2, 'required');
}
restart_with($node, seccomp => 'off');
is(status_of(engine_pid($node), 'Seccomp'), 0, 'off');
is(status_of(engine_pid($node), 'NoNewPrivs'), 1, 'without new privileges all the same');
ok(log_has(qr/no filter of system calls: setting vllm.seccomp is off/), 'and that is told');
$node->stop('fast');
done_testing();
