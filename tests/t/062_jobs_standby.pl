# On a hot standby queries work and jobs don't run; after promotion they continue.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest;

my $primary = PostgreSQL::Test::Cluster->new('jobs_primary');
$primary->init(allows_streaming => 1);
$primary->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$primary->append_conf('postgresql.conf', "vllm.engine_args = '--fake'\nmax_connections = 20\nfsync = off\n");
$primary->start;
$primary->safe_psql('postgres', q{CREATE EXTENSION vllm_pg;
	CREATE TABLE docs (id int PRIMARY KEY, body text, answer text);
	INSERT INTO docs VALUES (1, 'one')});
$primary->safe_psql('postgres', q{SELECT llm_create_completion_job('docs', '{body}', 'answer', name => 'docs')});
$primary->backup('b');
my $standby = PostgreSQL::Test::Cluster->new('jobs_standby');
$standby->init_from_backup($primary, 'b', has_streaming => 1);
$standby->start;
ok($primary->poll_query_until('postgres', q{SELECT answer = 'ONE' FROM docs}), 'the job runs on the primary');
$primary->wait_for_catchup($standby);
is($standby->safe_psql('postgres', 'SELECT name, state, done FROM llm_jobs'), 'docs|active|1', 'the view on the standby');
is($standby->safe_psql('postgres', q{SELECT llm_generate('query')}), 'QUERY', 'queries work on the standby');
is($standby->safe_psql('postgres', q{SELECT count(*) FROM pg_stat_activity WHERE backend_type LIKE 'vllm_pg job%'}), '0', 'no job process there');
for my $call (q{llm_create_completion_job('docs', '{body}', 'answer', name => 'x')}, q{llm_pause_job('docs')}, q{llm_retry_job('docs')}, q{llm_drop_job('docs')})
{
	my ($rc, $out, $err) = $standby->psql('postgres', "SELECT $call");
	like($err, qr/cannot execute llm_\w+\(\) during recovery/, "$call is refused");
}
# changes that have not been processed yet
$primary->safe_psql('postgres', q{SELECT llm_pause_job('docs'); INSERT INTO docs VALUES (2, 'two')});
$primary->wait_for_catchup($standby);
$primary->stop('immediate');
$standby->promote;
$standby->safe_psql('postgres', q{SELECT llm_resume_job('docs')});
ok($standby->poll_query_until('postgres', q{SELECT answer = 'TWO' FROM docs WHERE id = 2}), 'after promotion the job goes on');
$standby->stop('fast');
done_testing();
