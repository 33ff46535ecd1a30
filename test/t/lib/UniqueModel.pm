# What clients saw while they fought for unique keys, replayed: which rows were there when, and
# whether each unique_violation had a cause.
#
# A transaction, as the clients of 055_unique.pl write them down, is a hash of
#   client, pid
#   begin, end       when BEGIN was sent, and when the answer to COMMIT or ROLLBACK was read
#   from, to         when COMMIT was sent and when its answer was read; absent if it was rolled back
#   detached         [ from, to ]: DETACH CONCURRENTLY of the partition with these ids, at any time in between. Transactions
#                    that had begun before its end may write to the partition still, to no effect, until it is attached again
#   statements       hashes of
#     tag, sql       what it is
#     from, to       when it was sent and when its answer was read
#     state, text    the SQLSTATE and the whole message of an error
#     key            the key of a unique_violation
#     removed, added lists of [ id, key ]
#     takes          the keys whose rows it changes
#     wants          the keys that it gives to rows
#     undone         the number of statements there were when it was rolled back to a savepoint
# All times are of one clock. A row, that is its id, is inserted once.
package UniqueModel;

use strict;
use warnings;

use Exporter 'import';
use List::Util qw(max min);
our @EXPORT_OK = qw(replay presences_at_end false_violations missed_violations deadlocks);

# The statements of a transaction that count for its statement number `at`, or for its commit.
sub in_force
{
	my ($transaction, $at) = @_;
	my @statements = @{ $transaction->{statements} };
	$at //= @statements;
	return grep { !$_->{state} && !(defined $_->{undone} && $_->{undone} <= $at) } @statements[ 0 .. $at - 1 ];
}

# Rows a transaction has put there and taken away, by "id key".
sub effects
{
	my ($transaction, $at) = @_;
	my (%added, %removed);
	foreach my $statement (in_force($transaction, $at))
	{
		foreach my $row (@{ $statement->{removed} // [] })
		{
			delete $added{"@$row"} or $removed{"@$row"} = 1;
		}
		foreach my $row (@{ $statement->{added} // [] })
		{
			delete $removed{"@$row"} or $added{"@$row"} = 1;
		}
	}
	return (\%added, \%removed);
}

# What became of rows that a transaction has updated, "id key" => "id key".
sub successors
{
	my ($transaction) = @_;
	my %origin;
	foreach my $statement (grep { $_->{sql} =~ /^UPDATE/ } in_force($transaction))
	{
		my @from = map { "@$_" } @{ $statement->{removed} // [] };
		my @origins = map { delete $origin{$_} // $_ } @from;
		$origin{"@{ $statement->{added}[$_] }"} = $origins[$_] foreach 0 .. $#from;
	}
	return { reverse %origin };
}

# All that was committed about a row.
sub history
{
	my ($id, @committed) = @_;
	return join('', map { describe_transaction($_) } grep {
		my $transaction = $_;
		grep { $_->[0] == $id } map { @{ $_->{added} // [] }, @{ $_->{removed} // [] } } in_force($transaction);
	} sort { $a->{from} <=> $b->{from} } @committed);
}

# Returns { by_key => { key => [ presences ] }, open => { "id key" => presence },
# detached => [ transactions ], problems => [ text ] }. A presence is a row
# under one key, visible to others: { id, key, from, surely_from, by }, with { surely_to, to } if it has an end, and with { next }
# if that was an UPDATE.
sub replay
{
	my (@log) = @_;
	my (%open, %by_key, @problems, @detached);
	my @committed = grep { defined $_->{to} } @log;
	my $is_without_effect = sub {
		my ($transaction, $id) = @_;
		return grep { !$_->{is_over} && $transaction->{begin} < $_->{to} && $id >= $_->{detached}[0] && $id < $_->{detached}[1] } @detached;
	};
	# Who changes a row sends COMMIT after the one who had changed it before has committed.
	foreach my $transaction (sort { ($a->{detached} ? $a->{to} : $a->{from}) <=> ($b->{detached} ? $b->{to} : $b->{from}) } @committed)
	{
		my ($added, $removed) = effects($transaction);
		my $next = successors($transaction);
		my %ended;
		# Who attaches a partition waits for all who write to it.
		if (grep { $_->{tag} eq 'attach' } in_force($transaction)) { $_->{is_over} = 1 foreach @detached; }
		if (my $ids = $transaction->{detached})
		{
			push @detached, $transaction;
			$removed = { map { $_ => 1 } grep { $open{$_}{id} >= $ids->[0] && $open{$_}{id} < $ids->[1] } sort keys %open };
		}
		foreach my $row (sort keys %$removed)
		{
			my ($id, $key) = split / /, $row;
			my $presence = delete $open{$row};
			if ($presence) { @$presence{qw(surely_to to)} = @$transaction{qw(from to)}; $ended{$row} = $presence; }
			elsif (!$is_without_effect->($transaction, $id)) { push @problems, "row $row was not there, and was changed by " . history($id, @committed); }
		}
		foreach my $row (sort keys %$added)
		{
			my ($id, $key) = split / /, $row;
			push @problems, "row $row came twice" if $open{$row};
			my $presence = $open{$row} = { id => $id, key => $key, from => $transaction->{from}, surely_from => $transaction->{to}, by => $transaction };
			push @{ $by_key{$key} }, $presence;
			next unless $is_without_effect->($transaction, $id);
			@$presence{qw(surely_to to)} = @$transaction{qw(from to)};
			delete $open{$row};
		}
		foreach my $row (grep { $next->{$_} } sort keys %ended) { $ended{$row}{next} = $open{ $next->{$row} }; }
	}
	return { by_key => \%by_key, open => \%open, detached => \@detached, problems => \@problems };
}

sub presences_at_end { my ($model) = @_; return sort keys %{ $model->{open} }; }

# The presences of a key that a time may have seen. They are in order, and few overlap.
sub presences_between
{
	my ($model, $key, $from, $to) = @_;
	my $presences = $model->{by_key}{$key} // [];
	my ($low, $high) = (0, scalar @$presences);
	while ($low < $high)
	{
		my $middle = int(($low + $high) / 2);
		if ($presences->[$middle]{from} <= $to) { $low = $middle + 1; }
		else { $high = $middle; }
	}
	my (@found, $others);
	for (my $i = $low - 1; $i >= 0 && ($others // 0) < 100; $i--)
	{
		if (!defined $presences->[$i]{to} || $presences->[$i]{to} >= $from) { push @found, $presences->[$i]; $others = 0; }
		else { $others++; }
	}
	return @found;
}

# Whether statement number `at` of a transaction may have met another row with the key.
sub is_justified
{
	my ($model, $transaction, $at, $is_snapshot) = @_;
	my $statement = $transaction->{statements}[$at];
	my $key = $statement->{key};
	my ($added, $removed) = effects($transaction, $at);
	# What the statement finds by that key itself, it takes the key from. A transaction may not see a partition that is being
	# detached concurrently, and yet have written to it.
	my $takes = sub {
		my ($id) = @_;
		return (grep { $_ eq $key } @{ $statement->{takes} // [] })
		  && !grep { $_->{from} < $statement->{to} && $_->{to} > $transaction->{begin} && $id >= $_->{detached}[0] && $id < $_->{detached}[1] } @{ $model->{detached} };
	};
	foreach my $row (sort keys %$added)
	{
		return 1 if $row =~ /^(\S+) \Q$key\E$/ && !$takes->($1);
	}
	my $sees_from = $is_snapshot ? $transaction->{begin} : $statement->{from};
	foreach my $presence (presences_between($model, $key, $statement->{from}, $statement->{to}))
	{
		next if $removed->{"$presence->{id} $key"};
		next
		  if $takes->($presence->{id})
		  && $presence->{surely_from} <= $sees_from
		  && (!defined $presence->{surely_to} || $presence->{surely_to} >= $statement->{to});
		return 1;
	}
	return 0;
}

sub describe_transaction
{
	my ($transaction) = @_;
	my $text = sprintf("client %d, begun at %.6f\n", $transaction->{client}, $transaction->{begin});
	foreach my $statement (@{ $transaction->{statements} })
	{
		$text .= sprintf("    %.6f .. %.6f %s -> %s%s\n", $statement->{from}, $statement->{to}, $statement->{sql},
			$statement->{state} || join(', ', map({ "-[@$_]" } @{ $statement->{removed} // [] }), map({ "+[@$_]" } @{ $statement->{added} // [] })),
			defined $statement->{undone} ? ', undone' : '');
	}
	return $text . (defined $transaction->{to} ? sprintf("    %.6f .. %.6f committed\n", $transaction->{from}, $transaction->{to}) : "    rolled back\n");
}

# Texts about violations that nothing explains; the number of all.
sub false_violations
{
	my ($model, $is_snapshot, @log) = @_;
	my ($count, @false) = (0);
	foreach my $transaction (@log)
	{
		my @statements = @{ $transaction->{statements} };
		foreach my $at (0 .. $#statements)
		{
			my $statement = $statements[$at];
			next if $statement->{state} ne '23505';
			$count++;
			next if is_justified($model, $transaction, $at, $is_snapshot);
			my $text = "no row had key $statement->{key}:\n" . describe_transaction($transaction);
			# What was there shortly before and after, and whoever may have written the key, committed or not.
			foreach my $presence (presences_between($model, $statement->{key}, $statement->{from} - 0.01, $statement->{to} + 0.01))
			{
				$text .= sprintf("  row %s from %.6f (%.6f) until %s\n", $presence->{id}, $presence->{from}, $presence->{surely_from},
					defined $presence->{to} ? sprintf("(%.6f) %.6f", $presence->{surely_to}, $presence->{to}) : 'the end');
			}
			foreach my $other (@log)
			{
				next if $other == $transaction || $other->{begin} > $statement->{to} || $other->{end} < $statement->{from} - 0.01;
				$text .= describe_transaction($other)
				  if grep { $_->[1] eq $statement->{key} } map { @{ $_->{added} // [] }, @{ $_->{removed} // [] } } @{ $other->{statements} };
			}
			push @false, $text;
		}
	}
	return ($count, @false);
}

# Texts about rows of one key that were there at the same time.
sub missed_violations
{
	my ($model) = @_;
	my @missed;
	foreach my $key (sort keys %{ $model->{by_key} })
	{
		my ($last);
		foreach my $presence (sort { $a->{surely_from} <=> $b->{surely_from} } @{ $model->{by_key}{$key} })
		{
			next if defined $presence->{surely_to} && $presence->{surely_to} <= $presence->{surely_from};
			push @missed, "rows $last->{id} and $presence->{id} had key $key at once:\n" . describe_transaction($last->{by}) . describe_transaction($presence->{by})
			  if $last && (!defined $last->{surely_to} || $last->{surely_to} > $presence->{surely_from});
			$last = $presence if !$last || !defined $presence->{surely_to} || defined $last->{surely_to} && $last->{surely_to} < $presence->{surely_to};
		}
	}
	return @missed;
}

# The statement in which another process of a deadlock was stuck: what the server's log says it was. Of several that read alike the
# one that ran the longest beside the victim's: that may have heard of its end late.
sub partner
{
	my ($victim, $sql, $log) = @_;
	my ($best, $longest);
	foreach my $transaction (grep { $_->{begin} < $victim->{to} && $_->{end} > $victim->{from} } @$log)
	{
		my @statements = @{ $transaction->{statements} };
		foreach my $at (grep { index("$statements[$_]{sql};", $sql) == 0 } 0 .. $#statements)
		{
			my $common = min($statements[$at]{to}, $victim->{to}) - max($statements[$at]{from}, $victim->{from});
			($best, $longest) = ({ transaction => $transaction, at => $at }, $common) if $common > 0 && (!$best || $common > $longest);
		}
	}
	return $best;
}

# The keys that a transaction had to do with until the end of its statement number `at`. A statement that has waited for a row has
# locked it, whatever its key is by then.
sub touched
{
	my ($model, $member) = @_;
	my %keys;
	foreach my $statement (in_force($member->{transaction}, $member->{at}), $member->{transaction}{statements}[ $member->{at} ])
	{
		$keys{$_} = 1 foreach @{ $statement->{takes} // [] }, @{ $statement->{wants} // [] }, map { $_->[1] } @{ $statement->{added} // [] }, @{ $statement->{removed} // [] };
		foreach my $presence (map { presences_between($model, $_, $statement->{from}, $statement->{to}) } @{ $statement->{takes} // [] })
		{
			for (my $later = $presence->{next}; $later && $later->{from} < $statement->{to}; $later = $later->{next}) { $keys{ $later->{key} } = 1; }
		}
	}
	return \%keys;
}

# Deadlocks, given the server's log, each { class, text, common, is_short }: the tags of the statements that met, how many keys
# their transactions had in common, and whether each of the transactions was at its first statement.
sub deadlocks
{
	my ($server_log, @log) = @_;
	my $model = replay(@log);
	my (%reports, %by_pid, @deadlocks);
	push @{ $reports{$1} }, $2 while $server_log =~ /(Process \d+ waits for [^\n]*)\n((?:\tProcess \d+[^\n]*\n)+)/g;
	push @{ $by_pid{ $_->{pid} } }, $_ foreach @log;
	foreach my $transaction (@log)
	{
		my @statements = @{ $transaction->{statements} };
		foreach my $at (grep { $statements[$_]{state} eq '40P01' } 0 .. $#statements)
		{
			my $victim = $statements[$at];
			my ($first) = $victim->{text} =~ /(Process \d+ waits[^\n]*)/;
			# After a savepoint, the same two may have met again.
			my ($report) = grep { /Process $transaction->{pid}: ([^\n]*)/ && index("$victim->{sql};", $1) == 0 } @{ $reports{$first} // [] };
			my %sql = ($report // '') =~ /Process (\d+): ([^\n]*)/g;
			my @members = ({ transaction => $transaction, at => $at });
			push @members, map { partner($victim, $sql{$_}, $by_pid{$_}) // () } grep { $_ != $transaction->{pid} } sort keys %sql;
			next if @members < 2; # what it met is not known
			my %count;
			foreach my $member (@members) { $count{$_}++ foreach sort keys %{ touched($model, $member) }; }
			push @deadlocks, {
				class => join(' + ', sort map { $_->{transaction}{statements}[ $_->{at} ]{tag} } @members),
				common => scalar(grep { $_ > 1 } values %count),
				is_short => !(grep { $_->{at} > 0 } @members),
				text => join("\n", $victim->{text}, map({ "process $_: $sql{$_}" } sort keys %sql), '') . join('', map { describe_transaction($_->{transaction}) } @members) };
		}
	}
	return @deadlocks;
}

1;
