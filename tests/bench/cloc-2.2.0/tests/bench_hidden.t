use strict;
use warnings;
use Test::More;
use Cwd qw(getcwd);
use File::Temp qw(tempdir);

my $cloc = getcwd() . '/lib/cloc';
my $dir = tempdir(CLEANUP => 1);
chdir $dir or die;
mkdir $_ or die for 'one', 'one/a', 'two', 'two/b';
put('one/a/x.c', "int a;\n");
put('two/b/x.c', "int a;\nint b;\n/* c */\n");

sub put { my ($path, $text) = @_; open my $file, '>', $path or die; print $file $text; close $file }
sub get { my ($path) = @_; open my $file, '<', $path or return ''; local $/; return scalar <$file> }
sub cloc { my $said = `$^X $cloc @_ 2>&1`; return $said }

cloc('--quiet --csv --report-file=out.csv one');
like(get('out.csv'), qr/^1,C,0,0,1$/m, 'a report in a file');

cloc('--quiet --yaml --out=out.yaml two');
like(get('out.yaml'), qr/^C\s*:.*code: 2$/ms, 'a report by --out');

cloc('--quiet --csv --count-and-diff one/a two/b --out=report');
my @reports = sort glob 'report*';
is(scalar @reports, 3, 'three reports of a comparison');

like(cloc('--quiet --csv one'), qr/^1,C,0,0,1$/m, 'a report on the terminal');
like(cloc('--quiet --csv two'), qr/^1,C,0,1,2$/m, 'comments are told apart');
like(cloc('--quiet --csv --diff one/a two/b'), qr/^C, 0, 1, 0, 0,/m, 'a comparison on the terminal');
like(cloc('--quiet --csv --by-file two'), qr{^C,.*two/b/x\.c,0,1,2$}m, 'files one by one');
done_testing();
