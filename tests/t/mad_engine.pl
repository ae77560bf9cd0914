#!/usr/bin/perl
# A malicious engine: it reports hello and ready, then writes over the arena.
#
# Not a test by itself: 007_mad_engine.pl makes it the engine.  The arena is written through its file
# descriptor (4), which is the memory that the server has mapped.  Two modes alternate: noise, random bytes
# over everything; and malice, words that pass the first check (states, cursors, frame heads).  At the end
# it hangs.  usage: mad_engine.pl SEED SECONDS
use strict;
use warnings;
use Time::HiRes qw(time sleep);

my ($seed, $seconds) = @ARGV;
srand($seed);
open(my $ctl, '+<&=', 3) or die $!;
open(my $arena, '+<&=', 4) or die $!;
binmode $arena;

sub put
{
	my ($at, $bytes) = @_;
	sysseek($arena, $at, 0) or die $!;
	syswrite($arena, $bytes) // die $!;
}

sub get
{
	my ($at, $n) = @_;
	sysseek($arena, $at, 0) or die $!;
	sysread($arena, my $bytes, $n) // die $!;
	return $bytes;
}

# WireGeometry
my ($magic, $version, $total, $n_slots, $ring_size, $stats, $to_engine, $to_worker, $slots, $rings) =
  unpack('L2 Q L2 Q5', get(0, 64));
my $noise = join('', map { pack('L', rand(4294967296)) } 1 .. 65536);

sub noise
{
	my ($n) = @_;
	return substr($noise, int(rand(length($noise) - $n)), $n);
}

sub pick { return $_[ rand @_ ] }

# Random bytes: the header with its geometry, statistics, both slot rings, slots.
sub be_noisy
{
	put(0, noise(4096));
	put($stats, noise(65536));
	put($to_engine, noise(4 * $n_slots));
	put($to_worker, noise(4 * $n_slots));
	put($slots + 256 * $_, noise(256)) for 0 .. $n_slots - 1;
	put($rings + int(rand(2 * $ring_size * $n_slots - 4096)), noise(4096)) for 1 .. 64;
}

sub field
{
	my ($tag, $type, $bytes, $len) = @_;
	return pack('S S L', $tag, $type, $len // length $bytes) . $bytes . "\0" x (-length($bytes) % 8);
}

# Make a frame whose head looks valid, of that call and position; the fields that it announces may be
# missing.
sub frame
{
	my ($gen, $place) = @_;
	my $kind = pick(100 .. 104, 100 .. 104, 7);
	my $body = join('', map { field(pick(1 .. 80), pick(1 .. 4), noise(pick(0, 5, 8, 64)), pick(undef, undef, 0, 8, 4294967295)) } 1 .. int(rand(4)));
	return pack('L3 S S Q', 0x4745534d, $gen, $place, $kind, pick(0, $kind >= 103 ? 1 : 0), pick(length $body, length $body, length $body, 0, 1 << 29, 0xffffffffffffffff)) . $body;
}

# Words that pass the first check; our variables have the real layout.
sub be_malicious
{
	put($stats, pack('L L', pick(1, 3, 2), pick(64, 65, 0xffffffff)) . noise(65528));
	for my $slot (0 .. $n_slots - 1)
	{
		my ($ring, $frames) = ($rings + (2 * $slot + 1) * $ring_size, '');
		my ($state, $gen, $cancel, $attn, $wake, $req_head, $req_tail, $rep_head, $rep_tail) = unpack('L9', get($slots + 256 * $slot, 36));
		next if $slot > 16 && rand() < 0.9;
		$frames .= frame($gen, pick($rep_tail + length $frames, length $frames)) while length $frames < 1000;
		put($ring, $frames);
		put($ring + $ring_size - 2000, $frames);
		# cursors: a frame's end, a full ring, one byte too much; the state and let_go
		put($slots + 256 * $slot, pack('L9', pick(0 .. 4), $gen, pick(0, 1), pick(0, 1), pick(0, 1),
			pick($req_head, 0), pick($req_head, $req_head - $ring_size, $req_head + 1, 77),
			$rep_tail + pick(16, length $frames, $ring_size, $ring_size + 1, -1) & 0xffffffff, $rep_tail));
		put($slots + 256 * $slot + 60, pack('L', pick($gen, $gen + 1))) if rand() < 0.5;
		# "wake its owner", also for slots that don't exist
		put($to_worker + 4 * $slot, pack('L', pick($slot, $n_slots, 0xffffffff)));
	}
	# to_worker's cursors follow to_engine's, each a WireRing of 64 bytes
	put(192, pack('L2', pick(0, 5, 1 << 20, 0xffffffff), pick(0, 5, 0xffffffff)));
	syswrite($ctl, "w\n" x pick(0, 1, 100));
}

syswrite($ctl, "hello $version $$\nready\n");
# truncating the file would cause a SIGBUS in every process that has mapped it
syswrite(STDERR, truncate($arena, 0) ? "E: the arena could be cut\n" : "I: the arena can't be cut\n");
my $end = time + $seconds;
my $rounds = 0;
while (time < $end)
{
	rand() < 0.5 ? be_noisy() : be_malicious();
	$rounds++;
	sleep(0.001);
}
syswrite(STDERR, "I: mad engine: $rounds rounds\n");
sleep(3600);
