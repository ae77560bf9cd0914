# The module that tests run has its assertions (src/base/assert.h): an illegal transition of a call, planted
# by tests/hooks, aborts the backend with the line that detected it; a legal one does not.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $hooks = $ENV{VLLM_PG_HOOKS} // '';
plan skip_all => 'no module of hooks was built (VLLM_PG_HOOKS)' if !-r $hooks;

my $node = new_node('assertions', "restart_after_crash = on\nvllm.engine = off\n");
# from PostgreSQL 16 on modules hide symbols that they don't export, so the planted fault can't call it
SKIP:
{
	skip 'functions of the module are hidden', 7 if $node->pg_version >= 16;

	$node->safe_psql('postgres', "CREATE FUNCTION plant_fault(text) RETURNS void LANGUAGE C AS '$hooks'");
	is($node->safe_psql('postgres', q{SELECT plant_fault('none')}), '', 'a transition that may follow');
	for my $fault ('no slot', 'twice')
	{
		my $from = -s $node->logfile;
		my ($rc, $out, $err) = $node->psql('postgres', "SELECT plant_fault('$fault')");
		isnt($rc, 0, "$fault: the backend ends");
		ok(until_true(sub { slurp_file($node->logfile, $from) =~ m{P: \S*src/pg/client/client\.c:\d+: does not hold: wire_call_may_follow\(} }),
			"$fault: the log has the line and the condition");
		ok(until_true(sub { $node->psql('postgres', 'SELECT 1') == 0 }), "$fault: the server starts again");
	}
}
$node->stop;
done_testing();
