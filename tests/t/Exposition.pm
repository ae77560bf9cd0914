# A parser of Prometheus' text format, version 0.0.4, written from its description: it shares no code with
# the writer.  An error is an exception.
package Exposition;
use strict;
use warnings;
use Exporter 'import';

our @EXPORT = qw(read_exposition sample family_names);

# Unescape "a\nb" of a HELP or a label.
sub unescape
{
	my ($s, $quotes) = @_;
	$s =~ s/\\(.)/$1 eq 'n' ? "\n" : $1 eq '\\' ? '\\' : $1 eq '"' && $quotes ? '"' : die "bad escape \\$1\n"/ge;
	return $s;
}

sub read_labels
{
	my ($s) = @_;
	my %l;
	while (length $s)
	{
		$s =~ s/^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"(,|$)// or die "bad labels: $s\n";
		die "label $1 twice\n" if exists $l{$1};
		$l{$1} = unescape($2, 1);
	}
	return \%l;
}

sub number
{
	my ($s) = @_;
	return 9**9**9 if $s eq '+Inf';
	return -9**9**9 if $s eq '-Inf';
	die "bad number $s\n" if $s !~ /^[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?$/;
	return $s + 0;
}

sub check_histogram
{
	my ($name, $f) = @_;
	my %series;
	for my $s (@{ $f->{samples} })
	{
		my %l = %{ $s->{labels} };
		my $le = delete $l{le};
		my $key = join(',', map { "$_=$l{$_}" } sort keys %l);
		if ($s->{name} eq "${name}_bucket") { push @{ $series{$key}{buckets} }, [ number($le // die "a bucket without a bound\n"), $s->{value} ] }
		elsif ($s->{name} =~ /_(sum|count)$/) { die "$s->{name} twice\n" if defined $series{$key}{$1}; $series{$key}{$1} = $s->{value} }
		else { die "sample $s->{name} of a histogram\n" }
	}
	for my $s (values %series)
	{
		my @b = @{ $s->{buckets} // die "$name has no buckets\n" };
		die "$name lacks a sum or a count\n" if !defined $s->{sum} || !defined $s->{count};
		for my $i (1 .. $#b)
		{
			die "$name: bounds don't rise\n" if $b[$i][0] <= $b[ $i - 1 ][0];
			die "$name: a bucket has less than the one before\n" if $b[$i][1] < $b[ $i - 1 ][1];
		}
		die "$name: no bucket without bound\n" if $b[-1][0] != 9**9**9;
		die "$name: the last bucket is not the count\n" if $b[-1][1] != $s->{count};
	}
}

# Return the families by name: type, help, samples (name, labels, value).
sub read_exposition
{
	my ($text) = @_;
	my (%f, $last, %seen);
	die "no line end\n" if $text !~ /\n\z/;
	for my $line (split /\n/, $text)
	{
		next if $line eq '' || ($line =~ /^#/ && $line !~ /^# (HELP|TYPE) /);
		if ($line =~ /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (.*)$/)
		{
			die "second HELP of $1\n" if defined $f{$1}{help};
			die "HELP of $1 behind samples\n" if $f{$1}{samples};
			$f{$1}{help} = unescape($2, 0);
		}
		elsif ($line =~ /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary|untyped)$/)
		{
			die "second TYPE of $1\n" if defined $f{$1}{type};
			die "TYPE of $1 behind samples\n" if $f{$1}{samples};
			$f{$1}{type} = $2;
			$last = $1;
		}
		elsif ($line =~ /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})?[ \t]+(\S+)$/)
		{
			my ($name, $labels, $value) = ($1, read_labels($2 // ''), number($3));
			my $base = $name;
			$base =~ s/_(bucket|sum|count)$// if !$f{$name}{type};
			delete $f{$name} if !%{ $f{$name} };
			die "sample $name is not of the family at hand\n" if !defined $last || $base ne $last;
			die "$name: only histograms have parts\n" if $base ne $name && $f{$base}{type} ne 'histogram';
			my $key = "$name\{" . join(',', map { "$_=$labels->{$_}" } sort keys %$labels) . '}';
			die "$key twice\n" if $seen{$key}++;
			die "counter $name is negative\n" if $f{$base}{type} eq 'counter' && $value < 0;
			push @{ $f{$base}{samples} }, { name => $name, labels => $labels, value => $value };
		}
		else { die "no line of the format: $line\n" }
	}
	for my $name (keys %f)
	{
		die "$name has no TYPE or no HELP\n" if !defined $f{$name}{type} || !defined $f{$name}{help};
		check_histogram($name, $f{$name}) if $f{$name}{type} eq 'histogram' && $f{$name}{samples};
	}
	return \%f;
}

# The value of one sample, by name and some of its labels; undef = there is none.
sub sample
{
	my ($families, $name, %labels) = @_;
	my ($base) = grep { $families->{$_} } ($name, $name =~ s/_(bucket|sum|count)$//r);
	my @found = grep { my $s = $_; $s->{name} eq $name && !grep { ($s->{labels}{$_} // '') ne $labels{$_} } keys %labels } @{ $families->{ $base // '' }{samples} // [] };
	die "$name: " . @found . " samples\n" if @found > 1;
	return @found ? $found[0]{value} : undef;
}

# Return every name that a query may use.
sub family_names
{
	my ($families) = @_;
	return map { $families->{$_}{type} eq 'histogram' ? ("${_}_bucket", "${_}_sum", "${_}_count") : $_ } keys %$families;
}

1;
