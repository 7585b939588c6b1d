"""Runs the script (../script.txt) by PyMySQL or mysqlclient: dbapi.py MODULE."""
import datetime
import decimal
import hashlib
import importlib
import os
import sys
import time

driver = importlib.import_module(sys.argv[1])
cursors = importlib.import_module(sys.argv[1] + ".cursors")
pymysql = sys.argv[1] == "pymysql"
NOT_OFFERED = "not offered"


def connect(*options):
    arguments = dict(
        host=os.environ["DRIVER_HOST"], port=int(os.environ["DRIVER_PORT"]), user=os.environ["DRIVER_USER"],
        password=os.environ["DRIVER_PASSWORD"], charset="utf8mb4", autocommit=True, local_infile=True,
    )
    if "noschema" not in options:
        arguments["database" if pymysql else "db"] = os.environ["DRIVER_SCHEMA"]
    if "wrong" in options:
        arguments["password"] = "wrong"
    if "tls" in options:
        arguments["ssl"] = {"ca": os.environ["DRIVER_CA"], "check_hostname": False} if pymysql else {"ca": os.environ["DRIVER_CA"]}
    if "compress" in options:
        arguments["compress"] = True
        if pymysql:
            return None
    if pymysql:
        arguments["program_name"] = "the driver matrix"
    flags = importlib.import_module(sys.argv[1] + ".constants.CLIENT")
    arguments["client_flag"] = flags.MULTI_STATEMENTS
    return driver.connect(**arguments)


def parameter(text):
    kind, _, value = text.partition(":")
    if kind == "null":
        return None
    if kind in ("int", "uint"):
        return int(value)
    if kind == "bool":
        return value == "1"
    if kind == "dec":
        return decimal.Decimal(value)
    if kind == "num":
        return float(value)
    if kind == "hex":
        return bytes.fromhex(value)
    if kind == "date":
        return datetime.date.fromisoformat(value)
    if kind == "datetime":
        return datetime.datetime.fromisoformat(value)
    if kind == "time":
        h, m, s = value.split(":")
        return datetime.timedelta(hours=int(h), minutes=int(m), seconds=int(s.split(".")[0]), microseconds=int(s.split(".")[1]))
    return value


def percent(sql):
    return sql.replace("%", "%%").replace("?", "%s")


def show(value):
    return "set " + repr(sorted(value)) if isinstance(value, set) else repr(value)


def answer(cursor, rows):
    if cursor.description is None:
        out("affected %r, id %r" % (cursor.rowcount, cursor.lastrowid))
    else:
        for d in cursor.description:
            out("column %r" % (d,))
        n = 0
        for row in rows:
            n += 1
            out("row " + " | ".join(map(show, row)))
        out("%d rows, rowcount %r" % (n, cursor.rowcount))


def out(line):
    sys.stdout.write(line + "\n")


class Client:
    connection = second = statement = None

    def connect(self, *options):
        if self.connection is not None:
            self.connection.close()
            self.connection = None
        self.connection = connect(*options)
        if self.connection is None:
            self.connection = connect()
            return NOT_OFFERED

    def run(self, connection, sql, parameters=None):
        with connection.cursor() as cursor:
            cursor.execute(sql, parameters)
            answer(cursor, cursor.fetchall() if cursor.description else ())
            info = connection._result.message if pymysql and connection._result else None if pymysql else connection.info()
            if info:
                out("info %r" % (info,))
            if not pymysql:
                out("warnings %d" % connection.warning_count())
            elif connection._result:
                out("warnings %d" % connection._result.warning_count)

    def query(self, sql):
        self.run(self.connection, sql)

    load = query

    def other(self, sql):
        if self.second is None:
            self.second = connect()
        self.run(self.second, sql)

    def prepared(self, sql, *parameters):
        self.statement = percent(sql)
        self.again(*parameters)

    def again(self, *parameters):
        self.run(self.connection, self.statement, tuple(map(parameter, parameters)))

    def batch(self, sql, *parameters):
        rows = [[]]
        for p in parameters:
            if p == ";":
                rows.append([])
            else:
                rows[-1].append(parameter(p))
        with self.connection.cursor() as cursor:
            cursor.executemany(percent(sql), rows)
            answer(cursor, ())

    def multi(self, sql):
        connection = self.connection
        with connection.cursor() as cursor:
            cursor.execute(sql)
            while True:
                answer(cursor, cursor.fetchall() if cursor.description else ())
                if not cursor.nextset():
                    break

    def stream(self, sql):
        with self.connection.cursor(cursors.SSCursor) as cursor:
            cursor.execute(sql)
            answer(cursor, iter(cursor.fetchone, None))

    def cursor(self, sql, size):
        return NOT_OFFERED

    def large(self, size):
        size = int(size)
        blob = (bytes(range(256)) * (size // 256 + 1))[:size]
        with self.connection.cursor() as cursor:
            cursor.execute("REPLACE INTO blobs VALUES (%s, %s)", (1, blob))
            out("affected %d" % cursor.rowcount)
            cursor.execute("SELECT b, LENGTH(b) FROM blobs WHERE id = %s", (1,))
            got = cursor.fetchone()
            out("%d bytes, %d, %s" % (len(got[0]), got[1], "equal" if got[0] == blob else "DIFFERENT " + hashlib.md5(got[0]).hexdigest()))

    def begin(self):
        self.connection.begin() if pymysql else self.connection.query("BEGIN")

    def commit(self):
        self.connection.commit()

    def rollback(self):
        self.connection.rollback()

    def use(self, schema):
        self.connection.select_db(schema)

    def ping(self):
        self.connection.ping(False) if pymysql else self.connection.ping()

    def reset(self):
        return NOT_OFFERED

    def change(self):
        if pymysql:
            return NOT_OFFERED
        self.connection.change_user(os.environ["DRIVER_USER"], os.environ["DRIVER_PASSWORD"], os.environ["DRIVER_SCHEMA"])

    def close(self):
        self.connection.close()
        if self.second is not None:
            self.second.close()


client = Client()
sys.stdout.reconfigure(encoding="utf-8")
with open(os.environ["DRIVER_SCRIPT"], encoding="utf-8") as script:
    for line in script:
        number, operation, *arguments = line.rstrip("\n").split("\t")
        out("> " + number)
        began = time.time()
        try:
            said = getattr(client, operation)(*arguments)
            if said:
                out(said)
        except driver.Error as e:
            out("error %s %r" % (type(e).__name__, e.args))
        sys.stdout.flush()
        if os.environ.get("DRIVER_TIMES"):
            print("%s %s %.3f" % (number, operation, time.time() - began), file=sys.stderr)
