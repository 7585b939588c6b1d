<?php
// Runs the script (../script.txt): client.php mysqli|pdo.

const NOT_OFFERED = 'not offered';

function out(string $line): void { fwrite(STDOUT, $line . "\n"); }

function show($value): string {
    if ($value === null) return 'NULL';
    return gettype($value) . ' ' . (is_string($value) ? (preg_match('//u', $value) && !preg_match('/[\x00-\x08\x0e-\x1f]/', $value) ? $value : 'hex ' . bin2hex($value)) : var_export($value, true));
}

function parameter(string $text) {
    [$kind, $value] = explode(':', $text, 2) + [1 => ''];
    switch ($kind) {
        case 'null': return null;
        case 'int': return (int) $value;
        case 'num': return (float) $value;
        case 'bool': return $value === '1';
        case 'hex': return hex2bin($value);
        default: return $value;
    }
}

function rows(array $parameters): array {
    $rows = [[]];
    foreach ($parameters as $p) {
        if ($p === ';') $rows[] = [];
        else $rows[count($rows) - 1][] = parameter($p);
    }
    return $rows;
}

function blob(int $size): string {
    $all = implode('', array_map('chr', range(0, 255)));
    return substr(str_repeat($all, intdiv($size, 256) + 1), 0, $size);
}

class MysqliClient {
    private ?mysqli $c = null;
    private ?mysqli $second = null;
    private ?mysqli_stmt $statement = null;

    private function dial(string ...$options): mysqli {
        mysqli_report(MYSQLI_REPORT_ERROR | MYSQLI_REPORT_STRICT);
        $c = mysqli_init();
        $c->options(MYSQLI_OPT_LOCAL_INFILE, true);
        $flags = 0;
        if (in_array('compress', $options)) $flags |= MYSQLI_CLIENT_COMPRESS;
        if (in_array('tls', $options)) {
            $c->ssl_set(null, null, getenv('DRIVER_CA'), null, null);
            $flags |= MYSQLI_CLIENT_SSL | MYSQLI_CLIENT_SSL_DONT_VERIFY_SERVER_CERT;
        }
        $c->real_connect(getenv('DRIVER_HOST'), getenv('DRIVER_USER'), in_array('wrong', $options) ? 'wrong' : getenv('DRIVER_PASSWORD'),
            in_array('noschema', $options) ? null : getenv('DRIVER_SCHEMA'), (int) getenv('DRIVER_PORT'), null, $flags);
        $c->set_charset('utf8mb4');
        return $c;
    }

    private function result(mysqli_result $r): void {
        foreach ($r->fetch_fields() as $f) {
            out("column $f->name type $f->type length $f->length flags $f->flags decimals $f->decimals charset $f->charsetnr $f->db.$f->table.$f->orgtable.$f->orgname");
        }
        $n = 0;
        while ($row = $r->fetch_row()) {
            $n++;
            out('row ' . implode(' | ', array_map('show', $row)));
        }
        out("$n rows");
        $r->free();
    }

    private function answer(mysqli $c, $r): void {
        if ($r instanceof mysqli_result) $this->result($r);
        else out("affected $c->affected_rows id $c->insert_id");
        out("warnings $c->warning_count info " . var_export($c->info, true));
    }

    function connect(string ...$options) {
        if ($this->c) $this->c->close();
        $this->c = null;
        $this->c = $this->dial(...$options);
    }
    function query(string $sql) { $this->answer($this->c, $this->c->query($sql)); }
    function load(string $sql) { $this->query($sql); }
    function other(string $sql) {
        $this->second ??= $this->dial();
        $this->answer($this->second, $this->second->query($sql));
    }
    function prepared(string $sql, string ...$p) {
        $this->statement = null;
        $this->statement = $this->c->prepare($sql);
        $this->again(...$p);
    }
    private function bind(array $values): void {
        $types = '';
        foreach ($values as &$v) {
            if (is_bool($v)) $v = (int) $v;
            $types .= is_int($v) ? 'i' : (is_float($v) ? 'd' : 's');
        }
        unset($v);
        if ($values) $this->statement->bind_param($types, ...$values);
    }
    function again(string ...$p) {
        $st = $this->statement;
        $this->bind(array_map('parameter', $p));
        $st->execute();
        $r = $st->get_result();
        if ($r instanceof mysqli_result) $this->result($r);
        else out("affected $st->affected_rows id $st->insert_id");
    }
    function batch(string $sql, string ...$p) {
        $this->statement = $this->c->prepare($sql);
        foreach (rows($p) as $row) {
            $this->bind($row);
            $this->statement->execute();
            out("affected {$this->statement->affected_rows} id {$this->statement->insert_id}");
        }
    }
    function multi(string $sql) {
        $this->c->multi_query($sql);
        do {
            $this->answer($this->c, $this->c->store_result());
        } while ($this->c->more_results() && $this->c->next_result());
    }
    function stream(string $sql) {
        $this->c->real_query($sql);
        $this->result($this->c->use_result());
    }
    function cursor(string $sql, string $size) {
        // The default result set of a statement is read row by row; a cursor only by attribute.
        $st = $this->c->prepare($sql);
        $st->attr_set(MYSQLI_STMT_ATTR_CURSOR_TYPE, MYSQLI_CURSOR_TYPE_READ_ONLY);
        $st->execute();
        $n = $st->field_count;
        $row = array_fill(0, $n, null);
        $st->bind_result(...$row);
        $rows = 0;
        while ($st->fetch()) {
            $rows++;
            out('row ' . implode(' | ', array_map('show', $row)));
        }
        out("$rows rows");
        $st->close();
    }
    function begin() { $this->c->begin_transaction(); }
    function commit() { $this->c->commit(); }
    function rollback() { $this->c->rollback(); }
    function large(string $size) {
        $b = blob((int) $size);
        $st = $this->c->prepare('REPLACE INTO blobs VALUES (1, ?)');
        $null = null;
        $st->bind_param('b', $null);
        foreach (str_split($b, 500000) as $piece) $st->send_long_data(0, $piece);
        $st->execute();
        out("affected $st->affected_rows");
        $row = $this->c->query('SELECT b, LENGTH(b) FROM blobs WHERE id = 1')->fetch_row();
        out(strlen($row[0]) . " bytes, $row[1], " . ($row[0] === $b ? 'equal' : 'DIFFERENT'));
    }
    function use(string $schema) { $this->c->select_db($schema); }
    function ping() { out(var_export(@$this->c->ping(), true)); }
    function reset() { return NOT_OFFERED; }
    function change() { $this->c->change_user(getenv('DRIVER_USER'), getenv('DRIVER_PASSWORD'), getenv('DRIVER_SCHEMA')); }
    function close() {
        $this->c->close();
        if ($this->second) $this->second->close();
    }
}

class PdoClient {
    private ?PDO $c = null;
    private ?PDO $second = null;
    private ?PDOStatement $statement = null;

    private function dial(string ...$options): PDO {
        $dsn = 'mysql:charset=utf8mb4;host=' . getenv('DRIVER_HOST') . ';port=' . getenv('DRIVER_PORT');
        if (!in_array('noschema', $options)) $dsn .= ';dbname=' . getenv('DRIVER_SCHEMA');
        $o = [PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION, PDO::ATTR_EMULATE_PREPARES => false, PDO::MYSQL_ATTR_LOCAL_INFILE => true];
        if (in_array('compress', $options)) $o[PDO::MYSQL_ATTR_COMPRESS] = true;
        if (in_array('tls', $options)) $o += [PDO::MYSQL_ATTR_SSL_CA => getenv('DRIVER_CA'), PDO::MYSQL_ATTR_SSL_VERIFY_SERVER_CERT => false];
        return new PDO($dsn, getenv('DRIVER_USER'), in_array('wrong', $options) ? 'wrong' : getenv('DRIVER_PASSWORD'), $o);
    }
    private function result(PDOStatement $r): void {
        if ($r->columnCount() === 0) {
            out('affected ' . $r->rowCount() . ' id ' . $this->c->lastInsertId());
            return;
        }
        for ($i = 0; $i < $r->columnCount(); $i++) {
            $m = $r->getColumnMeta($i);
            ksort($m);
            out('column ' . json_encode($m));
        }
        $n = 0;
        while ($row = $r->fetch(PDO::FETCH_NUM)) {
            $n++;
            out('row ' . implode(' | ', array_map('show', $row)));
        }
        out("$n rows, rowCount " . $r->rowCount());
    }
    function connect(string ...$options) {
        $this->statement = null;
        $this->c = null;
        $this->c = $this->dial(...$options);
    }
    function query(string $sql) {
        // As text, not prepared and executed, as is PDO's default.
        $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
        try {
            $r = $this->c->query($sql);
            $this->result($r);
            $r->closeCursor();
        } finally {
            $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
        }
    }
    function load(string $sql) { out('affected ' . $this->c->exec($sql)); }
    function other(string $sql) {
        $this->second ??= $this->dial();
        $r = $this->second->query($sql);
        $this->result($r);
        $r->closeCursor();
    }
    function prepared(string $sql, string ...$p) {
        $this->statement = null;
        $this->statement = $this->c->prepare($sql);
        $this->again(...$p);
    }
    private function bind(array $values): void {
        foreach ($values as $i => $v) {
            $this->statement->bindValue($i + 1, $v, $v === null ? PDO::PARAM_NULL : (is_int($v) ? PDO::PARAM_INT : (is_bool($v) ? PDO::PARAM_BOOL : PDO::PARAM_STR)));
        }
    }
    function again(string ...$p) {
        $this->bind(array_map('parameter', $p));
        $this->statement->execute();
        $this->result($this->statement);
        $this->statement->closeCursor();
    }
    function batch(string $sql, string ...$p) {
        // As Laravel and others do where the driver prepares for itself.
        $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
        try {
            $this->statement = $this->c->prepare($sql);
            foreach (rows($p) as $row) {
                $this->bind($row);
                $this->statement->execute();
                $this->result($this->statement);
            }
        } finally {
            $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
        }
    }
    function multi(string $sql) {
        $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, true);
        $r = null;
        try {
            $r = $this->c->query($sql);
            do {
                $this->result($r);
            } while ($r->nextRowset());
        } finally {
            if ($r) $r->closeCursor();
            $this->c->setAttribute(PDO::ATTR_EMULATE_PREPARES, false);
        }
    }
    function stream(string $sql) {
        $this->c->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, false);
        $r = $this->c->query($sql);
        $this->result($r);
        $r->closeCursor();
        $this->c->setAttribute(PDO::MYSQL_ATTR_USE_BUFFERED_QUERY, true);
    }
    function cursor() { return NOT_OFFERED; }
    function begin() { $this->c->beginTransaction(); }
    function commit() { $this->c->commit(); }
    function rollback() { $this->c->rollBack(); }
    function large(string $size) {
        $b = blob((int) $size);
        $st = $this->c->prepare('REPLACE INTO blobs VALUES (1, ?)');
        $st->bindValue(1, $b, PDO::PARAM_LOB);
        $st->execute();
        $row = $this->c->query('SELECT b, LENGTH(b) FROM blobs WHERE id = 1')->fetch(PDO::FETCH_NUM);
        out(strlen($row[0]) . " bytes, $row[1], " . ($row[0] === $b ? 'equal' : 'DIFFERENT'));
    }
    function use(string $schema) { $this->c->exec("USE $schema"); }
    function ping() { return NOT_OFFERED; }
    function reset() { return NOT_OFFERED; }
    function change() { return NOT_OFFERED; }
    function close() { $this->c = $this->second = null; }
}

$client = $argv[1] === 'pdo' ? new PdoClient : new MysqliClient;
foreach (file(getenv('DRIVER_SCRIPT'), FILE_IGNORE_NEW_LINES) as $line) {
    $arguments = explode("\t", $line);
    $number = array_shift($arguments);
    $operation = array_shift($arguments);
    out("> $number");
    try {
        $said = $client->$operation(...$arguments);
        if ($said) out($said);
    } catch (mysqli_sql_exception $e) {
        out('error ' . $e->getCode() . ' ' . $e->getSqlState() . ' ' . $e->getMessage());
    } catch (PDOException $e) {
        out('error ' . json_encode($e->errorInfo) . ' ' . $e->getMessage());
    }
}
