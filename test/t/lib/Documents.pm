# Reads the documents for users: README.md and docs/*.md. 080_documents.pl runs their examples, and
# test/documents checks their links and the length of their lines. CONTRIBUTING.md says, under Tests,
# how a document writes examples.
package Documents;

use strict;
use warnings;

use Exporter 'import';

our @EXPORT_OK = qw(user_documents read_document);

# The documents of the tree, README.md first.
sub user_documents
{
	my ($tree) = @_;
	return grep { -e "$tree/$_" } 'README.md', map { s{^\Q$tree\E/}{}r } sort glob("$tree/docs/*.md");
}

# The parts of a document, in order, each a hash of its kind, its first line's number and its lines:
#   prose, table   lines outside of anything else
#   heading        with text
#   code           a fenced block, with its language, and as directed by a comment right before it:
#                  skipped (not run), databases (in ...)
#   setup          what a comment <!-- setup ... --> has the test run; of, for the blocks of another
#                  document: <!-- setup: README.md -->
#   comment        any other
sub read_document
{
	my ($path) = @_;
	open my $file, '<:encoding(UTF-8)', $path or die "$path: $!";
	my @lines = <$file>;
	chomp @lines;
	my (@parts, $i);
	for ($i = 0; $i < @lines; $i++)
	{
		my $part = { line => $i + 1, lines => [ $lines[$i] ] };
		if ($lines[$i] =~ /^\s*```([^`]*)$/)
		{
			$part->{kind} = 'code';
			$part->{language} = $1;
			my ($indent) = $lines[$i] =~ /^(\s*)/;
			push @{ $part->{lines} }, $lines[ ++$i ] until $lines[$i] =~ /^\s*```$/ && @{ $part->{lines} } > 1 || $i == $#lines;
			$part->{text} = join '', map { s/^$indent//r . "\n" } @{ $part->{lines} }[ 1 .. $#{ $part->{lines} } - 1 ];
			direct($part, $parts[-1]);
		}
		elsif ($lines[$i] =~ /^\s*<!--/)
		{
			push @{ $part->{lines} }, $lines[ ++$i ] until $lines[$i] =~ /-->\s*$/ || $i == $#lines;
			$part->{text} = join("\n", @{ $part->{lines} }) =~ s/^\s*<!--\s*|\s*-->\s*$//gr;
			$part->{kind} = $part->{text} =~ s/^setup\b// ? 'setup' : 'comment';
			$part->{of} = $1 if $part->{kind} eq 'setup' && $part->{text} =~ /^:\s*(\S+)\s*$/;
		}
		elsif ($lines[$i] =~ /^#+ +(.*?)\s*$/) { @{$part}{ 'kind', 'text' } = ('heading', $1); }
		elsif ($lines[$i] =~ /^\s*\|/) { $part->{kind} = 'table'; }
		elsif ($lines[$i] =~ /^\s*$/) { next; }
		else { $part->{kind} = 'prose'; }
		push @parts, $part;
	}
	return @parts;
}

# What a comment before a block says of it.
sub direct
{
	my ($block, $before) = @_;
	return unless $before && $before->{kind} eq 'comment';
	$block->{skipped} = 1 if $before->{text} eq 'not run';
	$block->{databases} = [ split ' ', $1 ] if $before->{text} =~ /^in (.*)/;
	return;
}

1;
