# Helpers of the TAP tests: a server with the fake engine, statements in the background, and checks for
# leaks.
package VllmTest;
use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time usleep);

our @EXPORT = qw(new_node bg bg_as finish error_of set_to restart_with stat_engine engine_pid engine_ranks parent_of until_true until_sql until_ready
  is_alive fd_count rss_kb left_behind make_adapter figure);

# initdb gives the same result for the same arguments, so it runs once: a data directory is a copy of the
# one that VLLM_PG_TEMPLATE names (scripts/check.sh makes it).
sub copied_initdb
{
	my @args = @_;
	my @plain = ('initdb', '-D', $args[2], '-A', 'trust', '-N');
	my $template = $ENV{VLLM_PG_TEMPLATE};
	return 0 if !defined $template || "@args" ne "@plain";
	return system('cp', '-a', '--reflink=auto', $template, $args[2]) == 0;
}

{
	no warnings 'redefine';
	my $run = \&PostgreSQL::Test::Utils::system_or_bail;
	*PostgreSQL::Test::Utils::system_or_bail = sub {
		return if $_[0] eq 'initdb' && copied_initdb(@_);
		return $run->(@_);
	};
}

# Return a started server with the extension in database postgres.
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

# Run statements in a psql of its own, one after the other.
sub bg
{
	my ($node, @sql) = @_;
	return start_psql($node->connstr('postgres'), @sql);
}

# The same as another role.
sub bg_as
{
	my ($node, $role, @sql) = @_;
	return start_psql($node->connstr('postgres') . " user=$role", @sql);
}

sub start_psql
{
	my ($connstr, @sql) = @_;
	my $b = { out => '', err => '', start => time };
	$b->{h} = IPC::Run::start([ 'psql', '-XAtq', '-v', 'VERBOSITY=verbose', '-d', $connstr, map { ('-c', $_) } @sql ],
		'<', '/dev/null', '>', \$b->{out}, '2>', \$b->{err});
	return $b;
}

# Wait for its end; returns the output and the error text (with SQLSTATE).
sub finish
{
	my ($b) = @_;
	$b->{h}->finish;
	$b->{took} = time - $b->{start};
	chomp $b->{out};
	return wantarray ? ($b->{out}, $b->{err}) : $b->{out};
}

# Return the error text of a statement, with SQLSTATE.
sub error_of
{
	my ($node, $sql) = @_;
	my ($ret, $out, $err) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql");
	return $err;
}

# Set a setting and wait until the engine has it, too.
sub set_to
{
	my ($node, $name, $value) = @_;
	my $at = -s $node->logfile;
	$node->safe_psql('postgres', "ALTER SYSTEM SET $name = '$value'");
	return if $node->safe_psql('postgres', "SELECT current_setting('$name')") eq $value;
	$node->reload;
	until_true(sub { slurp_file($node->logfile, $at) =~ /parameter "\Q$name\E" changed/ });
	$node->safe_psql('postgres', 'SELECT pg_sleep(0.2)');
	return;
}

# Restart the engine with these settings (without their "vllm.").
sub restart_with
{
	my ($node, %set) = @_;
	my $old = engine_pid($node) || 0;
	$node->safe_psql('postgres', "ALTER SYSTEM SET vllm.$_ = '$set{$_}'") for sort keys %set;
	$node->reload;
	$node->safe_psql('postgres', 'SELECT llm_engine_restart()');
	return ok(until_ready($node, $old), 'an engine with ' . join(', ', map { "$_ $set{$_}" } sort keys %set));
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

# Return the engine's processes except the first.
sub engine_ranks
{
	my ($node) = @_;
	my $supervisor = parent_of(engine_pid($node));
	my @found;
	for my $dir (glob '/proc/[0-9]*')
	{
		open(my $f, '<', "$dir/cmdline") or next;
		my $line = <$f> // '';
		my ($pid) = $dir =~ /(\d+)$/;
		push @found, $pid if $line =~ /vllm_pg_engine\0--rank\0/ && parent_of($pid) == $supervisor;
	}
	@found = sort { $a <=> $b } @found;
	return @found;
}

sub parent_of
{
	my ($pid) = @_;
	open(my $f, '<', "/proc/$pid/stat") or return 0;
	my $line = <$f> // '';
	return $line =~ /\) \S (\d+)/ ? $1 : 0;
}

# Call $f until it returns true; false after $seconds.
sub until_true
{
	my ($f, $seconds) = @_;
	my $end = time + ($seconds // 30);
	my $pause = 2000;
	while (time < $end)
	{
		return 1 if $f->();
		usleep($pause);
		$pause *= 1.2 if $pause < 20_000;
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

# Return slots in use, zombies, waiters, running and waiting requests, KV blocks; all 0 if nothing is left.
sub left_behind
{
	my ($node) = @_;
	my $sql = 'SELECT slots_total - slots_free, zombies, slot_waiters, running, waiting, kv_blocks_used FROM llm_stat_engine';
	my $got;
	until_true(sub { ($got = $node->safe_psql('postgres', $sql)) eq '0|0|0|0|0|0' }, 10);
	return $got;
}

# Make an adapter in directory $path: of one matrix, whose product is so large that outputs change; for
# tickets-2m, or for rows and a q of the given widths.
sub make_adapter
{
	my ($path, $in, $out) = (@_, 256, 256);
	my ($a, $b) = (4 * $in, 4 * ($in + $out));
	my $p = 'base_model.model.model.layers.0.self_attn.q_proj';
	my $head = qq({"$p.lora_A.weight":{"dtype":"F32","shape":[1,$in],"data_offsets":[0,$a]},)
		. qq("$p.lora_B.weight":{"dtype":"F32","shape":[$out,1],"data_offsets":[$a,$b]}});
	mkdir $path or die "$path: $!";
	open(my $h, '>:raw', "$path/adapter_model.safetensors") or die "$path: $!";
	print $h pack('Q<', length $head) . $head . pack('f<*', map { sin($_) } 1 .. $in + $out);
	close $h;
	append_to_file("$path/adapter_config.json", qq({"peft_type": "LORA", "r": 1, "lora_alpha": 1, "target_modules": ["q_proj"]}));
	return;
}

sub figure
{
	diag('figure: ' . sprintf(shift, @_));
}

1;
