# The disk is full beneath whatever the extension does: relations of the server cannot grow by more than
# so many blocks in a process, by a library before the C library that says ENOSPC. A clean error (53100),
# nothing half-made, nothing lost, and with room again the same work is done by the same session.
use strict;
use warnings;

use FindBin;
use lib "$FindBin::RealBin/lib";
use GlobalIndexes;
use IndexTableTest;
use Work;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $directory = PostgreSQL::Test::Utils::tempdir();
append_to_file("$directory/full.c", q{
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>
#include <fcntl.h>

// The file says how many blocks more each process may have; without it there is room.
static int is_full(int fd, off_t end)
{
	static long taken;
	static struct timespec said;
	char link[64], path[4096];
	struct stat state;
	const char *file = getenv("ROOM_LEFT");
	if (!file || stat(file, &state) != 0)
		return 0;
	if (state.st_mtim.tv_sec != said.tv_sec || state.st_mtim.tv_nsec != said.tv_nsec)
		taken = 0;
	said = state.st_mtim;
	if (fstat(fd, &state) != 0 || end <= state.st_size)
		return 0;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t length = readlink(link, path, sizeof path - 1);
	if (length < 0)
		return 0;
	path[length] = 0;
	if (!strstr(path, "/base/"))
		return 0;
	FILE *stream = fopen(file, "r");
	long room = 0;
	if (!stream || fscanf(stream, "%ld", &room) != 1)
		room = 0;
	if (stream)
		fclose(stream);
	if (taken++ < room)
		return 0;
	errno = ENOSPC;
	return 1;
}

#define REAL(name) ((__typeof__(name) *) dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at)
{
	return is_full(fd, at + size) ? -1 : REAL(pwrite64)(fd, data, size, at);
}
ssize_t pwrite(int fd, const void *data, size_t size, off_t at)
{
	return is_full(fd, at + size) ? -1 : REAL(pwrite)(fd, data, size, at);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at)
{
	size_t size = 0;
	for (int i = 0; i < count; i++)
		size += parts[i].iov_len;
	return is_full(fd, at + size) ? -1 : REAL(pwritev64)(fd, parts, count, at);
}
ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t at)
{
	size_t size = 0;
	for (int i = 0; i < count; i++)
		size += parts[i].iov_len;
	return is_full(fd, at + size) ? -1 : REAL(pwritev)(fd, parts, count, at);
}
int posix_fallocate64(int fd, off64_t at, off64_t size)
{
	return is_full(fd, at + size) ? ENOSPC : REAL(posix_fallocate64)(fd, at, size);
}
int posix_fallocate(int fd, off_t at, off_t size)
{
	return is_full(fd, at + size) ? ENOSPC : REAL(posix_fallocate)(fd, at, size);
}
});
plan skip_all => 'no C compiler' if system('gcc', '-shared', '-fPIC', '-O1', '-o', "$directory/full.so", "$directory/full.c", '-ldl') != 0;
my $room = "$directory/room";
my $node;
{
	local $ENV{LD_PRELOAD} = "$directory/full.so";
	local $ENV{ROOM_LEFT} = $room;
	$node = new_node('full', conf => "shared_preload_libraries = index_table\nlog_min_messages = warning\nmax_worker_processes = 20\nindex_table.drain_naptime = 1\n");
}
plan skip_all => 'no amcheck' unless has_amcheck($node);
prepare_work($node);
my %work = work();
$work{'many rows'} = [ q{INSERT INTO customers SELECT 800000 + i, 'many' || i, 'Town ' || i, ARRAY['t' || i], i::text, true FROM generate_series(1, 3000) AS i}, 'DELETE FROM customers WHERE id > 800000; VACUUM customers' ];
$work{'many rows, queued'} = [ q{UPDATE customers SET active = NOT active; CALL index_table.drain()}, 'VACUUM customers' ];

# room(n): of so many blocks for each process from now on; of any number without
sub room
{
	my ($blocks) = @_;
	unlink $room;
	append_to_file($room, "$blocks\n") if defined $blocks;
}

foreach my $name (sort keys %work)
{
	my ($sql, $undo) = map { ($_ // '') =~ s/NUMBER/0/gr } @{ $work{$name} }[ 0, 1 ];
	$node->safe_psql('postgres', $sql);
	$node->safe_psql('postgres', $undo) if $undo;
}
my ($before, $full, @wrong, %of) = (work_traces($node), 0);
my $number = 0;
foreach my $name (sort keys %work)
{
	foreach my $blocks (0, 1, 4, 15, 60)
	{
		$number++;
		my ($sql, $undo) = map { ($_ // '') =~ s/NUMBER/$number/gr } @{ $work{$name} }[ 0, 1 ];
		my $label = "$name, room for $blocks blocks";
		room($blocks);
		my ($status, $out, $error) = $node->psql('postgres', "\\set VERBOSITY verbose\n$sql;\nROLLBACK;\n\\! rm -f $room\n\\warn again\n$undo;\n$sql;\n\\warn end\n", on_error_stop => 0);
		room(undef);
		my ($first, $second) = split /^again$/m, $error;
		my @codes = $first =~ /(?:ERROR|FATAL|PANIC):\s+(\w{5})/g;
		if (grep { $_ eq '53100' } @codes) { $full++; $of{$name}++ }
		push @wrong, "$label: $first" if grep { !/^(53100|25P02|42P01|42704|23505|42710|42P07|42P17|42809|42703|55000|0A000|3B001)$/ } @codes;
		push @wrong, "$label, again: " . ($second // $error) if ($second // 'ERROR') =~ /ERROR|FATAL/ || $error !~ /^end$/m;
		my ($undone, $printed, $problem) = $node->psql('postgres', $undo || 'SELECT 1', on_error_stop => 1);
		push @wrong, "$label, undoing: $problem" if $problem =~ /ERROR/;
		my $after = work_traces($node);
		push @wrong, "$label: $before became $after" if $after ne $before;
		$before = $after;
	}
	last if @wrong > 8;
}
is(join("\n", @wrong), '', 'nothing is half-made, and sessions go on');
diag("the disk was full $full times, in " . scalar(keys %of) . ' kinds of work');
cmp_ok(scalar(keys %of), '>', 12, 'in many kinds of work');

# A worker that cannot write what is queued does so later.
room(0);
$node->psql('postgres', q{UPDATE customers SET active = NOT active WHERE id < 2000});
sleep 3;
room(undef);
$node->safe_psql('postgres', q{UPDATE customers SET active = NOT active WHERE id < 2000});
ok($node->poll_query_until('postgres', q{SELECT pending = 0 FROM index_table.queue_lag('customers_by_state')}), 'the worker goes on');
is(log_problems($node), '', 'nothing leaks');
check_work($node);
$node->stop;
done_testing();
