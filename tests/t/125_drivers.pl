# Python's database drivers: each argument of each function takes what they send for it, and calls as programs
# write them work (tests/clients/drivers.py has the cases).
use strict;
use warnings;
use IPC::Run ();
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my ($script) = grep { -f } ('clients/drivers.py', $ENV{TESTDATADIR} ? "$ENV{TESTDATADIR}/../work/clients/drivers.py" : (), 'tests/clients/drivers.py');
$ENV{PYTHONPATH} = $ENV{VLLM_PG_CLIENTS} // '';
plan skip_all => 'no packages psycopg, psycopg2, asyncpg and sqlalchemy here' if system('python3 -c "import psycopg, psycopg2, asyncpg, sqlalchemy, greenlet" >/dev/null 2>&1') != 0;

my $node = new_node('drivers');
my ($host, $port) = ($node->host, $node->port);
my ($out, $err) = ('', '');
IPC::Run::run([ 'python3', $script, $node->connstr('postgres'), "postgresql:///postgres?host=$host&port=$port" ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout(200));
is($err, '', 'no complaints');
for (split /\n/, $out)
{
	my ($ok, $name) = /^(not ok|ok) (\S+ \w+)/ or next;
	ok($ok eq 'ok', $name) or diag($_);
}
cmp_ok(scalar(() = $out =~ /^ok /mg), '==', 9, 'all drivers and steps') or diag($out);
cmp_ok($_, '>', 1400, 'all functions') for $out =~ /^ok \S+ functions: (\d+)/mg;
is(left_behind($node), '0|0|0|0|0|0', 'nothing is left');
$node->stop('fast');
done_testing();
