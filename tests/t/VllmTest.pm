# What the TAP tests share: a server with the fake engine, statements in the
# background, and a look at what must not leak.
package VllmTest;
use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(new_node bg finish stat_engine engine_pid until_true until_sql until_ready
  is_alive fd_count rss_kb left_behind figure);

# A started server with the extension in database postgres.
sub new_node
{
	my ($name, $conf) = @_;
	my $node = PostgreSQL::Test::Cluster->new($name);
	$node->init;
	$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
	$node->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\nmax_connections = 60\nfsync = off\nstatement_timeout = '60s'\n" . ($conf // ''));
	$node->start;
	$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
	return $node;
}

# Statements in a psql of its own, run one after the other.
sub bg
{
	my ($node, @sql) = @_;
	my $b = { out => '', err => '', start => time };
	$b->{h} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $node->connstr('postgres'), map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$b->{out}, '2>', \$b->{err});
	return $b;
}

# Its output and its error text (with SQLSTATE).
sub finish
{
	my ($b) = @_;
	$b->{h}->finish;
	$b->{took} = time - $b->{start};
	chomp $b->{out};
	return wantarray ? ($b->{out}, $b->{err}) : $b->{out};
}

sub stat_engine
{
	my ($node, $columns) = @_;
	return $node->safe_psql('postgres', "SELECT $columns FROM llm_stat_engine");
}

sub engine_pid
{
	return stat_engine($_[0], 'pid');
}

# Call $f until it gives true; false after $seconds.
sub until_true
{
	my ($f, $seconds) = @_;
	my $end = time + ($seconds // 30);
	while (time < $end)
	{
		return 1 if $f->();
		usleep(2000);
	}
	return 0;
}

sub until_sql
{
	my ($node, $sql, $want) = @_;
	return $node->poll_query_until('postgres', $sql, $want // 't');
}

# Wait until an engine other than $old serves.
sub until_ready
{
	my ($node, $old) = @_;
	return until_sql($node, "SELECT state = 'ready' AND pid <> " . ($old // 0) . ' FROM llm_stat_engine');
}

# A zombie in a container whose first process does not reap counts as dead.
sub is_alive
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/stat") or return 0;
	my $line = <$f> // '';
	return $line =~ /\) [^ZX] /;
}

sub fd_count
{
	my ($pid) = @_;
	opendir(my $d, "/proc/$pid/fd") or return -1;
	return scalar grep { !/^\./ } readdir $d;
}

sub rss_kb
{
	my ($pid) = @_;
	my ($kb) = slurp_file("/proc/$pid/status") =~ /VmRSS:\s+(\d+)/;
	return $kb;
}

# Slots in use, zombies, waiters, running and waiting requests, KV blocks; all 0 when nothing is left.
sub left_behind
{
	my ($node) = @_;
	my $sql = 'SELECT slots_total - slots_free, zombies, slot_waiters, running, waiting, kv_blocks_used FROM llm_stat_engine';
	my $got;
	until_true(sub { ($got = $node->safe_psql('postgres', $sql)) eq '0|0|0|0|0|0' }, 10);
	return $got;
}

sub figure
{
	diag('figure: ' . sprintf(shift, @_));
}

1;
