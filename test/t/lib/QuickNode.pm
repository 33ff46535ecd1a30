# A server of the TAP tests whose psql(), safe_psql() and poll_query_until() need no psql of their own each time: one
# psql connects, executes, and disconnects, again and again. Making a process costs more than most of the queries.
# Each call has a session of its own, as ever.
#
# A process is made where the SQL has psql's own commands (after \set VERBOSITY verbose), where options are given, and
# where there is no connection. An error ends psql, as on_error_stop wants it; the next call starts another.
package QuickNode;

use strict;
use warnings;

use parent -norequire, 'PostgreSQL::Test::Cluster';
use IO::Handle;
use IO::Select;
use IO::Socket::UNIX;
use POSIX ();
use Time::HiRes 'sleep';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils ();    # whose functions have names of methods
use Test::More ();

# Where psql is connected between two calls, as it ends without a connection: a socket that answers as a server does.
my $parking = PostgreSQL::Test::Utils::tempdir_short();
my $entrance = IO::Socket::UNIX->new(Local => "$parking/.s.PGSQL.1", Listen => 1) or die "$parking: $!";

my %running;    # by program, and by what psql has of the environment: { pid, in, out, err, lines }

# Lets psql in: AuthenticationOk, ReadyForQuery. psql closes its end when it connects elsewhere.
sub park
{
	my ($psql) = @_;
	my $place = $psql->{place} = $entrance->accept or die "accept: $!";
	sysread $place, my $startup, 1 << 16 or return;
	syswrite $place, pack 'A N N A N A', 'R', 8, 0, 'Z', 5, 'I' or die "parking: $!";
	return;
}

# Not by IPC::Open3: psql would keep the ends of IPC::Run's pipes, and sessions that wait for the end of their input open.
sub start_psql
{
	my ($program, $connstr) = @_;
	my $psql = { lines => 0, owner => $$ };
	pipe my $input, $psql->{in} or die "pipe: $!";
	pipe $psql->{out}, my $output or die "pipe: $!";
	pipe $psql->{err}, my $errors or die "pipe: $!";
	$psql->{pid} = fork // die "fork: $!";
	if (!$psql->{pid})
	{
		POSIX::dup2(fileno $input, 0) && POSIX::dup2(fileno $output, 1) && POSIX::dup2(fileno $errors, 2) || POSIX::_exit(1);
		POSIX::close($_) foreach 3 .. 255;
		exec { $program } $program, '-XAtq', '-d', $connstr, '-f', '-' or POSIX::_exit(127);
	}
	$_->blocking(0) foreach @{$psql}{qw(in out err)};
	return $psql;
}

# Its exit status. It has ended, or does as there is no more input.
sub end_psql
{
	my ($psql) = @_;
	close $psql->{$_} foreach qw(in out err);
	local ($?, $!);
	waitpid $psql->{pid}, 0;
	return $?;
}

END
{
	foreach (grep { $_->{owner} == $$ } values %running) { end_psql($_) }
}

# Writes input; reads what is printed until both outputs end in a line "mark", which is removed, or until psql has
# ended. Returns true, or nothing where it has ended.
sub converse
{
	my ($psql, $input, $mark, $out, $err) = @_;
	local $SIG{PIPE} = 'IGNORE';
	$psql->{lines} += $input =~ tr/\n//;
	my ($reading, $writing) = (IO::Select->new($psql->{out}, $psql->{err}, $entrance), IO::Select->new($psql->{in}));
	my %text = (fileno $psql->{out} => $out, fileno $psql->{err} => $err);
	my $marks = 0;
	while (1)
	{
		my ($readable, $writable) = IO::Select->select($reading, length $input ? $writing : undef, undef);
		foreach my $handle (@{ $readable // [] })
		{
			if ($handle == $entrance) { park($psql); next; }
			my $text = $text{ fileno $handle };
			my $got = sysread $handle, $$text, 1 << 16, length $$text;
			$reading->remove($handle) if defined $got && $got == 0;
		}
		return if $reading->count == 1;
		$marks += remove_mark($text{$_}, $mark) foreach keys %text;
		return 1 if $marks == 2;
		next unless @{ $writable // [] };
		my $written = syswrite $psql->{in}, $input;
		$input = defined $written ? substr($input, $written) : $!{EPIPE} ? '' : $input;
	}
	return;
}

sub remove_mark
{
	my ($text, $mark) = @_;
	my $begin = length($$text) - length($mark) - 1;
	return 0 if $begin < 0 || substr($$text, $begin) ne "$mark\n";
	substr($$text, $begin) = '';
	return 1;
}

# Executes in a new session. Returns psql's exit status, or nothing: there was no connection.
sub execute
{
	my ($node, $connstr, $sql, $stop, $out, $err) = @_;
	my $program = $node->installed_command('psql');
	my $key = join "\0", $$, $program, map { $_ . '=' . ($ENV{$_} // '') } sort grep { /^PG(?!HOST$|PORT$)/ } keys %ENV;
	my $psql = delete $running{$key} // start_psql($program, $connstr);
	my $verbosity = $sql =~ s/^\\set VERBOSITY verbose\n// ? 'verbose' : 'default';
	my $mark = 'end of ' . join '-', $$, $psql->{lines}, int rand 1e9;
	($$out, $$err) = ('', '');
	my $connects = $psql->{place} ? "\\connect -reuse-previous=off '" . $connstr =~ s/'/''/gr . "'\n" : '';
	if (!converse($psql, "\\set VERBOSITY $verbosity\n\\set ON_ERROR_STOP on\n$connects\\echo $mark\n\\warn $mark\n", $mark, $out, $err))
	{
		end_psql($psql);
		return;
	}
	my ($before, $off) = ($psql->{lines} - ($verbosity eq 'verbose'), $stop ? '' : "\\set ON_ERROR_STOP off\n");
	$before += $off =~ tr/\n//;
	my $end = $sql =~ /--.*\z/ ? "\n;" : ';';
	my $goes_on = converse($psql, "$off$sql$end\n\\set ON_ERROR_STOP on\n\\connect -reuse-previous=off 'host=$parking port=1'\n\\echo $mark\n\\warn $mark\n", $mark, $out, $err);
	$$err =~ s/^psql:<stdin>:(\d+): /'psql:<stdin>:' . ($1 - $before) . ': '/gem;
	return end_psql($psql) unless $goes_on;
	$running{$key} = $psql;
	return 0;
}

# Whether there is nothing for psql but statements, as far as can be seen without reading them.
sub is_plain
{
	my ($sql) = @_;
	$sql =~ s/^\\set VERBOSITY verbose\n//;
	return $sql !~ /\\[a-z?!.;]/ && $sql !~ /\bFROM\s+STDIN\b/i;
}

sub psql
{
	my ($self, $dbname, $sql, %params) = @_;
	local %ENV = $self->_get_env();
	my ($out, $err) = ('', '');
	my $status;
	my $stop = $params{on_error_stop} // 1;
	$status = execute($self, $self->connstr($dbname), $sql, $stop, \$out, \$err)
	  if !grep({ !/^(?:stdout|stderr|on_error_die|on_error_stop)$/ } keys %params) && is_plain($sql);
	return $self->SUPER::psql($dbname, $sql, %params) unless defined $status;
	if ($params{stderr}) { ${ $params{stderr} } = $err =~ s/\n\z//r; }
	elsif (!wantarray) { print STDERR $err; }
	if ($params{stdout}) { ${ $params{stdout} } = $out =~ s/\n\z//r; }
	elsif (!wantarray) { print $out; }
	chomp($out, $err);
	die "psql exited with signal $status: '$err' while running '$sql'" if $status & 127;
	$status >>= 8;
	die { 1 => 'psql error', 2 => 'connection error' }->{$status} // 'error running SQL', ": '$err'\nwhile running psql with sql '$sql'"
	  if $status && $params{on_error_die};
	return wantarray ? ($status, $out, $err) : $status;
}

sub poll_query_until
{
	my ($self, $dbname, $query, $expected) = @_;
	return $self->SUPER::poll_query_until($dbname, $query, $expected) unless defined $query;
	$expected //= 't';
	my ($status, $out, $err);
	my $end = time + $PostgreSQL::Test::Utils::timeout_default;
	do
	{
		($status, $out, $err) = $self->psql($dbname, $query, on_error_stop => 0);
		return 1 if $out eq $expected && $err eq '';
		sleep 0.05;
	} while (time < $end);
	Test::More::diag("poll_query_until: not in $PostgreSQL::Test::Utils::timeout_default s:\n$query\nexpected: $expected\nthe last: $out\n$err");
	return 0;
}

1;
