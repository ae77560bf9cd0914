# Examples of README and the documentation whose outputs they show: the bundled model answers what is shown.
#
# A block is run if a line in it begins with "-- →": a row of the statement before it, as psql -At prints it.
# Blanks at both ends of a row don't count.  A row that ends with "..." shows the beginning, and "→ ..." says
# that more rows follow.
use strict;
use warnings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use VllmTest ();

my $node = PostgreSQL::Test::Cluster->new('examples');
$node->init;
$node->append_conf('postgresql.conf', $ENV{EXTRA_CONF} // "shared_preload_libraries = 'vllm_pg'");
$node->append_conf('postgresql.conf', "fsync = off\nvllm.kv_cache_memory_bytes = '64MB'\nvllm.enable_prompt_embeds = on\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION vllm_pg');
$node->safe_psql('postgres', slurp_file('models/docs_sample.sql'));

# The blocks of a file that show rows: [line, text].
sub blocks
{
	my ($file) = @_;
	my (@found, $begun, $text);
	my $n = 0;
	open(my $f, '<', $file) or die "$file: $!";
	while (my $line = <$f>)
	{
		$n++;
		if ($line !~ /^```/) { $text .= $line if defined $text; }
		elsif (!defined $text) { ($begun, $text) = ($n + 1, ''); }
		else
		{
			push @found, [ $begun, $text ] if $text =~ /^-- →/m;
			undef $text;
		}
	}
	close $f;
	return @found;
}

# The statements of a block: [line, SQL, shown rows].
sub statements
{
	my ($n, $text) = @_;
	my @found = ([ $n, '', [] ]);
	for my $line (split /\n/, $text)
	{
		if ($line =~ /^-- → ?(.*)/) { push @{ $found[-1][2] }, $1; }
		elsif ($line =~ /^\s*(--.*)?$/) { }
		else
		{
			push @found, [ $n, '', [] ] if $found[-1][1] =~ /;\s*(--[^']*)?$/;
			$found[-1][1] .= ($found[-1][1] eq '' ? '' : "\n") . $line;
		}
		$n++;
	}
	return @found;
}

sub run_block
{
	my ($file, $first, $text) = @_;
	my @statements = statements($first, $text);
	my $script = join("\n", 'BEGIN;', map { $_->[1], '\echo =====' } @statements);
	my ($rc, $out, $err) = $node->psql('postgres', "$script\nROLLBACK;", on_error_stop => 1);
	is($rc, 0, "$file:$first runs") or diag($err);
	my @outputs = split /^=====\n?/m, $out, -1;
	for my $s (@statements)
	{
		my $got = shift(@outputs) // '';
		next if !@{ $s->[2] };
		s/^\s+|\s+$//g for my @got = split /\n/, $got;
		s/^\s+|\s+$//g for my @shown = @{ $s->[2] };
		$#got = $#shown - 1 if $shown[-1] eq '...' && @got >= @shown;
		pop @shown if $shown[-1] eq '...';
		for my $i (0 .. $#shown)
		{
			$got[$i] = substr($got[$i], 0, length($shown[$i])) . '...' if $i < @got && $shown[$i] =~ s/\.\.\.$//;
			$shown[$i] .= '...' if $i < @got && $got[$i] =~ /\.\.\.$/;
		}
		is(join("\n", @got), join("\n", @shown), "$file:$s->[0]: " . $s->[1] =~ s/\n.*//sr);
	}
	return;
}

my %count;
for my $file ('README.md', glob('user/*.md'), 'models/README.md')
{
	for my $b (blocks($file))
	{
		run_block($file, @$b);
		$count{$file}++;
	}
}
ok($count{'README.md'}, 'README shows what the bundled model answers');

# An example that asks the bundled model in its format shows what it answers, unless it says "...".
for my $file ('README.md', glob('user/*.md'))
{
	my $text = slurp_file($file);
	my @bare = grep { /^SELECT llm_(generate|generate_as|ask|choose|classify)\b.*(Ticket|Review): (?!\.\.\.)/ && !/\n-- →/ }
		map { split /(?<=;)\n(?!-- →)/ } $text =~ /^```sql\n(.*?)^```/msg;
	is("@bare", '', "$file: each answer is shown");
}

$node->stop;
done_testing();
