# A pooler that lends a connection to a server for each transaction, in turn, and tells its clients the
# process that it talks to at first: what poolers do that pass on the server's key. PostgreSQL's own are told
# apart by that key.
#
#   perl lending_pooler.pl TARGET SOCKET USER DATABASE old|fresh
#
# Listens on SOCKET and has two connections to TARGET for each client, made before clients come (old) or
# when they do (fresh). Needs no passwords.
use strict;
use warnings;

use IO::Select;
use IO::Socket::UNIX;

my ($target, $path, $user, $database, $when) = @ARGV;

sub read_bytes
{
	my ($socket, $length) = @_;
	my $bytes = '';
	while (length $bytes < $length)
	{
		return undef unless sysread $socket, $bytes, $length - length $bytes, length $bytes;
	}
	return $bytes;
}

sub write_bytes
{
	my ($socket, $bytes) = @_;
	while (length $bytes)
	{
		my $sent = syswrite $socket, $bytes or return;
		substr $bytes, 0, $sent, '';
	}
	return;
}

# A message with its kind and length; undef at the end.
sub read_message
{
	my ($socket) = @_;
	my $header = read_bytes($socket, 5) // return undef;
	my $rest = read_bytes($socket, unpack('x N', $header) - 4) // return undef;
	return $header . $rest;
}

sub is_ready { return substr($_[0], 0, 1) eq 'Z' }

# A connection, and what the server said when it was made.
sub connect_server
{
	my $socket = IO::Socket::UNIX->new(Peer => $target) or die "$target: $!";
	my $startup = pack('N', 3 << 16) . "user\0$user\0database\0$database\0\0";
	write_bytes($socket, pack('N', 4 + length $startup) . $startup);
	my ($greeting, $message) = ('');
	do { $greeting .= $message = read_message($socket) // die "no connection to $target" } until is_ready($message);
	return { socket => $socket, greeting => $greeting };
}

sub serve
{
	my ($client, @servers) = @_;
	read_bytes($client, unpack('N', read_bytes($client, 4) // return) - 4);
	write_bytes($client, $servers[0]{greeting});
	my $lent;
	while (1)
	{
		my ($ready) = IO::Select->new($client, $lent ? $lent->{socket} : ())->can_read;
		if ($ready == $client)
		{
			my $message = read_message($client) // return;
			return if substr($message, 0, 1) eq 'X';
			push @servers, $lent = shift @servers unless $lent;
			write_bytes($lent->{socket}, $message);
			next;
		}
		my $message = read_message($lent->{socket}) // return;
		write_bytes($client, $message);
		undef $lent if is_ready($message) && substr($message, 5, 1) eq 'I';
	}
	return;
}

$SIG{PIPE} = $SIG{CHLD} = 'IGNORE';
my $listener = IO::Socket::UNIX->new(Local => $path, Listen => 10) or die "$path: $!";
my @pairs = $when eq 'old' ? map { [ connect_server(), connect_server() ] } 1 .. 8 : ();
while (my $client = $listener->accept)
{
	my $pair = shift @pairs;
	if (!fork) # serves, with parent and socket gone
	{
		close $listener;
		serve($client, $pair ? @$pair : map { connect_server() } 1 .. 2);
		exit;
	}
	close $client;
	close $_->{socket} foreach $pair ? @$pair : ();
}
