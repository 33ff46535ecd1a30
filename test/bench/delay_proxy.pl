# Passes on what goes through unix sockets, some time later: what servers that are far away are like.
#
#   perl delay_proxy.pl TARGET MICROSECONDS SOCKET …
#
# Listens on each SOCKET and connects to TARGET; every byte arrives MICROSECONDS after it was sent, in
# both directions, so that a round trip takes twice as long.
use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;
use Time::HiRes 'time';

my ($target, $delay, @paths) = @ARGV;
$delay /= 1e6;
my (%listens, %peer, %queue, %ends);
my $readers = IO::Select->new;
foreach my $path (@paths)
{
	my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 50) or die "$path: $!";
	$listens{$listener} = 1;
	$readers->add($listener);
}

sub close_both
{
	my ($socket) = @_;
	foreach my $end ($socket, $peer{$socket})
	{
		$readers->remove($end);
		delete $queue{$end};
		delete $ends{$end};
		close $end;
	}
	delete $peer{ $peer{$socket} };
	delete $peer{$socket};
	return;
}

$SIG{PIPE} = 'IGNORE';
while (1)
{
	my ($now, $next) = (time, undef);
	foreach my $key (keys %queue)
	{
		my $chunks = $queue{$key} or next; # closed with the other end
		my $socket = $ends{$key};
		while (@$chunks && $chunks->[0][0] <= $now)
		{
			my $bytes = (shift @$chunks)->[1];
			if (!defined $bytes) { close_both($socket); last; }
			$socket->blocking(1);
			for (my $at = 0; $at < length $bytes;)
			{
				my $sent = syswrite $socket, $bytes, length($bytes) - $at, $at;
				last unless defined $sent;
				$at += $sent;
			}
		}
		$next = $chunks->[0][0] if $queue{$key} && @$chunks && (!defined $next || $chunks->[0][0] < $next);
	}
	my $wait = defined $next ? $next - time : 1;
	foreach my $ready ($readers->can_read($wait > 0 ? $wait : 0))
	{
		if ($listens{$ready})
		{
			my $client = $ready->accept or next;
			my $server = IO::Socket::UNIX->new(Peer => $target) or do { close $client; next };
			foreach my $pair ([ $client, $server ], [ $server, $client ])
			{
				my ($one, $other) = @$pair;
				$peer{$one} = $other;
				$queue{$one} = [];
				$ends{$one} = $one;
				$readers->add($one);
			}
			next;
		}
		my $other = $peer{$ready} or next;
		my $read = sysread $ready, my $bytes, 65536;
		if (!$read) { $readers->remove($ready); $bytes = undef; }
		push @{ $queue{$other} }, [ time + $delay, $bytes ];
	}
}
