# Helpers for tests of the batch node: many statements through one psql, each with its output, its errors
# and the engine's request log; comparison of logs.
package BatchTest;
use strict;
use warnings;
use Exporter 'import';
use IPC::Run ();
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

our @EXPORT = qw(batch_dir batch_setup run_lines log_relation multiset difference);

# tests/batch, from a checkout or where check.sh copied it
sub batch_dir
{
	my ($dir) = grep { -d } ('batch', $ENV{TESTDATADIR} ? "$ENV{TESTDATADIR}/../work/batch" : (), 'tests/batch');
	return $dir // die 'where is tests/batch?';
}

# Roles and functions that outlive schema w.
sub batch_setup
{
	my ($node) = @_;
	$node->safe_psql('postgres', q{
		CREATE ROLE batch_reader;
		-- one row a request, without the oids
		CREATE FUNCTION request_log() RETURNS SETOF text LANGUAGE sql AS $$
			SELECT regexp_replace(line, '^\d+ \d+ ', '') FROM regexp_split_to_table(vllm.control('log'), '\n') line WHERE line <> ''
		$$;
		CREATE FUNCTION left_behind() RETURNS text LANGUAGE plpgsql AS $$
		DECLARE
			n bigint;
		BEGIN
			FOR i IN 1 .. 5000 LOOP
				SELECT slots_total - slots_free + zombies + slot_waiters INTO n FROM llm_stat_engine;
				EXIT WHEN n = 0;
				PERFORM pg_sleep(0.001);
			END LOOP;
			RETURN n;
		END $$;
	});
}

sub script
{
	my ($lines, $settings, $reset, $begin, $clear) = @_;
	my $s = "\\set VERBOSITY verbose\n\\pset null ~\n\\pset format unaligned\n\\pset tuples_only on\n\\set QUIET on\n$settings\n$clear\n";

	for my $l (@$lines)
	{
		my $undone = $l->{writes} && !$l->{commits} && $begin ne '';

		$s .= "$begin\n" if $undone;
		$s .= "\\echo \@\@\@line $l->{at}\n\\warn \@\@\@line $l->{at}\n\\set QUIET off\n$l->{sql}\n;\n\\set QUIET on\n\\echo \@\@\@log $l->{at}\n\\warn \@\@\@end\n";
		$s .= "ROLLBACK;\nDISCARD ALL;\nSELECT left_behind();\nSELECT * FROM request_log();\nSELECT vllm.control('log-clear') \\gset\n\\echo \@\@\@end\n";
		$s .= "$reset\n" if $l->{writes} && !$undone;
		$s .= "$settings\n";
	}
	return $s;
}

# Run lines in one psql: { at => number, sql => text, writes => does it change the tables?, commits => does it
# begin or end transactions? }.  $settings go before each, $reset after one that writes.  If $begin is given,
# it goes before a line that writes and doesn't commit: it begins a transaction, which is rolled back after
# the line, and the line needs no $reset.  Returns number -> { out, err, log, left }.  A line that ends the
# connection is marked lost and the rest runs in a new one.
sub run_lines
{
	my ($node, $lines, $settings, $reset, $begin) = @_;
	my @todo = @$lines;
	my %got;

	while (@todo)
	{
		my ($out, $err) = ('', '');
		my $in = script(\@todo, $settings, $reset, $begin // '', "$reset\nSELECT vllm.control('log-clear') \\gset");
		my $h = IPC::Run::start([ 'psql', '-X', '-d', $node->connstr('postgres') ], '<', \$in, '>', \$out, '2>', \$err, IPC::Run::timeout(500));
		$h->finish;
		while ($out =~ /^\@\@\@line (\d+)\n(.*?)^\@\@\@log \g1\n(.*?)\n(.*?)^\@\@\@end\n/msg)
		{
			$got{$1} = { out => $2, left => $3, log => [ split /\n/, $4 ] };
		}
		while ($err =~ /^\@\@\@line (\d+)\n(.*?)^\@\@\@end\n/msg)
		{
			my ($at, $text) = ($1, $2);
			$text =~ s/^LOCATION: .*\n//mg;
			$text =~ s/^psql:.*?: //mg;
			$got{$at}{err} = $text if $got{$at};
		}
		shift @todo while @todo && $got{ $todo[0]{at} };
		next if !@todo;
		my $lost = shift @todo;
		diag("the connection was lost at line $lost->{at}: $lost->{sql}\n" . substr($err, -600));
		$got{ $lost->{at} } = { out => '(lost)', err => substr($err, -300), log => [], left => '?', lost => 1 };
		$node->poll_query_until('postgres', 'SELECT true');
		until_ready($node);
	}
	return \%got;
}

sub multiset
{
	my %n;
	$n{$_}++ for @_;
	return \%n;
}

# Return what one log has more than the other, as text; empty if nothing.
sub difference
{
	my ($x, $y) = @_;
	return join '', map { my $n = $x->{$_} - ($y->{$_} // 0); $n > 0 ? "    $n times: " . substr($_, 0, 120) . "\n" : () } sort keys %$x;
}

# Is the log of batched execution one that the relation allows?  Returns the complaint.
#   same: equal as a multiset; more: nothing is missing; fewer: nothing is added, and
#   each request occurs at least once; subset: nothing is added; any: each occurs at least once.
# With $dedup ('all' or 'greedy', those without a temperature) equal requests may occur once.
sub log_relation
{
	my ($relation, $off, $on, $dedup) = @_;
	my ($x, $y) = (multiset(@$off), multiset(@$on));
	my $why = '';

	if ($dedup)
	{
		# the modes may differ in how they write a temperature of 0
		s/^(\S+ \S+) 0 /$1 - / for @{ $off = [@$off] }, @{ $on = [@$on] };
		($x, $y) = (multiset(@$off), multiset(@$on));
		for my $k (keys %$x)
		{
			my ($temperature) = $k =~ /^\S+ \S+ (\S+)/;
			next if $dedup eq 'greedy' && $temperature !~ /^(-|0)$/;
			$x->{$k} = $y->{$k} if $y->{$k} && $y->{$k} < $x->{$k};
		}
	}
	if ($relation =~ /^(fewer|any)$/)
	{
		$x->{$_} = $y->{$_} for grep { $y->{$_} && $y->{$_} < $x->{$_} } keys %$x;
	}
	my ($missing, $added) = (difference($x, $y), difference($y, $x));
	$why .= "  missing requests:\n$missing" if $missing ne '' && $relation ne 'subset';
	$why .= "  requests that serial execution does not make:\n$added" if $added ne '' && $relation !~ /^(more|any)$/;
	return $why;
}

1;
