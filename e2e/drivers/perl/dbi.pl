# Runs the script (../script.txt) by DBD::mysql or DBD::MariaDB: dbi.pl mysql|MariaDB.
use strict;
use warnings;
use DBI qw(:sql_types);

binmode STDOUT, ':encoding(UTF-8)';
my $driver = $ARGV[0];
# DBD::MariaDB names its attributes by mariadb_, DBD::mysql by mysql_.
my $prefix = lc $driver;
my $maria = $prefix eq 'mariadb';
my ($c, $second, $statement);
# DBD::mysql binds every text as binary, of which MySQL makes no JSON.
my $prepares = $maria || $ENV{DRIVER_FLAVOUR} eq 'mariadb' ? 1 : 0;

sub out { print STDOUT $_[0], "\n" }

sub show {
    my ($v) = @_;
    return 'NULL' unless defined $v;
    return "hex " . join('', map { sprintf '%02x', ord } split //, $v) if $v =~ /[\x00-\x08\x0e-\x1f\x80-\x9f]/;
    return "'$v'";
}

sub parameter {
    my ($kind, $value) = split /:/, $_[0], 2;
    return undef if $kind eq 'null';
    return pack('H*', $value) if $kind eq 'hex';
    return $value;
}

sub bind_all {
    my ($st, @p) = @_;
    my $i = 0;
    for my $p (@p) {
        my ($kind) = split /:/, $p, 2;
        my $type = $kind eq 'int' || $kind eq 'bool' ? SQL_BIGINT : $kind eq 'num' ? SQL_DOUBLE : $kind eq 'hex' ? SQL_BLOB : SQL_VARCHAR;
        $st->bind_param(++$i, parameter($p), $type);
    }
}

sub dial {
    my %o = map { $_ => 1 } @_;
    my $dsn = "DBI:$driver:host=$ENV{DRIVER_HOST};port=$ENV{DRIVER_PORT};${prefix}_local_infile=1;${prefix}_multi_statements=1";
    $dsn .= ";database=$ENV{DRIVER_SCHEMA}" unless $o{noschema};
    $dsn .= ";${prefix}_compression=1" if $o{compress};
    $dsn .= ";${prefix}_ssl=1;${prefix}_ssl_ca_file=$ENV{DRIVER_CA};${prefix}_ssl_verify_server_cert=1" if $o{tls};
    my %attributes = (RaiseError => 1, PrintError => 0, AutoCommit => 1, "${prefix}_server_prepare" => $prepares);
    $attributes{mysql_enable_utf8mb4} = 1 unless $maria;
    return DBI->connect($dsn, $ENV{DRIVER_USER}, $o{wrong} ? 'wrong' : $ENV{DRIVER_PASSWORD}, \%attributes);
}

sub result {
    my ($c, $st) = @_;
    if ($st->{NUM_OF_FIELDS}) {
        for my $i (0 .. $st->{NUM_OF_FIELDS} - 1) {
            out(join ' ', 'column', $st->{NAME}[$i], map { "$_=" . ($st->{$_}[$i] // 'undef') } 'TYPE', 'SCALE', 'NULLABLE',
                map { "${prefix}_$_" } qw(is_blob is_num type length is_auto_increment));
        }
        my $n = 0;
        while (my $row = $st->fetchrow_arrayref) {
            $n++;
            out('row ' . join ' | ', map { show($_) } @$row);
        }
        out("$n rows");
    } else {
        out('affected ' . $st->rows . ' id ' . ($st->{"${prefix}_insertid"} // 'undef'));
    }
    out('warnings ' . ($st->{"${prefix}_warning_count"} // 'undef'));
}

sub run {
    my ($c, $sql, %attributes) = @_;
    my $st = $c->prepare($sql, \%attributes);
    $st->execute;
    result($c, $st);
    out('info ' . ($c->{"${prefix}_info"} // 'undef'));
    $st->finish;
}

my %text = ("${prefix}_server_prepare" => 0);

my %operations = (
    connect => sub {
        $statement = undef;
        $c->disconnect if $c;
        $c = undef;
        # DBD::mysql is built without; DBD::MariaDB insists on a certificate with the
        # server's name, which MySQL's own doesn't have.
        my $tls = (!$maria || $ENV{DRIVER_FLAVOUR} eq 'mysql') && grep { $_ eq 'tls' } @_;
        $c = dial($tls ? () : @_);
        return $tls ? 'not offered' : undef;
    },
    query => sub { run($c, $_[0], %text); return },
    load => sub { run($c, $_[0], %text); return },
    other => sub { $second //= dial(); run($second, $_[0], %text); return },
    prepared => sub { my $sql = shift; $statement = undef; $statement = $c->prepare($sql); bind_all($statement, @_); $statement->execute; result($c, $statement); return },
    again => sub { bind_all($statement, @_); $statement->execute; result($c, $statement); return },
    batch => sub {
        my $sql = shift;
        my $st = $c->prepare($sql);
        my (@rows, @row);
        for my $p (@_, ';') {
            if ($p eq ';') { push @rows, [@row]; @row = () } else { push @row, parameter($p) }
        }
        my @status;
        my $n = $st->execute_array({ ArrayTupleFetch => sub { shift @rows }, ArrayTupleStatus => \@status });
        out("done $n: @status");
        return;
    },
    multi => sub {
        my $st = $c->prepare($_[0], \%text);
        $st->execute;
        do { result($c, $st) } while ($st->more_results);
        return;
    },
    stream => sub { run($c, $_[0], %text, "${prefix}_use_result" => 1); return },
    cursor => sub { 'not offered' },
    begin => sub { $c->begin_work; return },
    commit => sub { $c->commit; return },
    rollback => sub { $c->rollback; return },
    large => sub {
        my $b = substr(join('', map { chr } 0 .. 255) x ($_[0] / 256 + 1), 0, $_[0]);
        my $st = $c->prepare('REPLACE INTO blobs VALUES (1, ?)');
        $st->bind_param(1, $b, SQL_BLOB);
        out('affected ' . $st->execute);
        my ($got, $n) = $c->selectrow_array('SELECT b, LENGTH(b) FROM blobs WHERE id = 1');
        out(length($got) . " bytes, $n, " . ($got eq $b ? 'equal' : 'DIFFERENT'));
        return;
    },
    use => sub { $c->do("USE $_[0]", \%text); return },
    ping => sub { out($c->ping ? 'alive' : 'dead'); return },
    reset => sub { 'not offered' },
    change => sub { 'not offered' },
    close => sub { $statement = undef; $c->disconnect; $second->disconnect if $second; return },
);

open my $script, '<:encoding(UTF-8)', $ENV{DRIVER_SCRIPT} or die $!;
$| = 1;
while (my $line = <$script>) {
    chomp $line;
    my ($number, $operation, @arguments) = split /\t/, $line;
    out("> $number");
    my $said = eval { $operations{$operation}->(@arguments) };
    if ($@) {
        die $@ unless $DBI::err;
        out('error ' . $DBI::err . ' ' . $DBI::state . ' ' . $DBI::errstr);
    } elsif (defined $said) {
        out($said);
    }
}
