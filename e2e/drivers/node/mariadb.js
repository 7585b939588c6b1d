'use strict';
const fs = require('fs');
const mariadb = require('mariadb');
const { NOT_OFFERED, out, show, parameter, rowsOf, blob, run } = require('./script.js');

const env = process.env;

const connect = (...options) => mariadb.createConnection({
  host: env.DRIVER_HOST, port: Number(env.DRIVER_PORT), user: env.DRIVER_USER,
  password: options.includes('wrong') ? 'wrong' : env.DRIVER_PASSWORD,
  database: options.includes('noschema') ? undefined : env.DRIVER_SCHEMA,
  timezone: 'Z', multipleStatements: true, permitLocalInfile: true, allowPublicKeyRetrieval: true,
  // MariaDB tells of JSON columns by extended metadata, and takes many rows by
  // COM_STMT_BULK_EXECUTE; Shunt offers neither.
  jsonStrings: env.DRIVER_FLAVOUR === 'mariadb', bulk: false,
  connectAttributes: { program_name: 'the driver matrix' },
  compress: options.includes('compress'),
  ssl: options.includes('tls') ? { ca: fs.readFileSync(env.DRIVER_CA), checkServerIdentity: () => undefined } : undefined,
});

const answer = (result) => {
  if (!Array.isArray(result)) {
    out(show(result));
    return;
  }
  for (const f of result.meta || []) {
    out(`column ${f.name()} type ${f.type} length ${f.columnLength} flags ${f.flags} decimals ${f.scale} charset ${f.collation && f.collation.name} ${f.db()}.${f.table()}.${f.orgTable()}.${f.orgName()}`);
  }
  for (const row of result) out('row ' + show(Object.values(row)));
  out(`${result.length} rows`);
};

const client = {
  async connect(...options) {
    if (this.c) await this.c.end();
    this.c = null;
    this.c = await connect(...options);
  },
  async query(sql) { answer(await this.c.query(sql)); },
  async load(sql) { answer(await this.c.query(sql)); },
  async other(sql) {
    this.second = this.second || await connect();
    answer(await this.second.query(sql));
  },
  async prepared(sql, ...p) {
    if (this.statement) this.statement.close();
    this.statement = null;
    this.statement = await this.c.prepare(sql);
    await this.again(...p);
  },
  async again(...p) { answer(await this.statement.execute(p.map(parameter))); },
  async batch(sql, ...p) { answer(await this.c.batch(sql, rowsOf(p))); },
  async multi(sql) {
    const results = await this.c.query(sql);
    for (const r of results) answer(r);
  },
  async stream(sql) {
    let n = 0;
    for await (const row of this.c.queryStream(sql)) {
      n++;
      out('row ' + show(Object.values(row)));
    }
    out(`${n} rows`);
  },
  cursor() { return NOT_OFFERED; },
  async begin() { await this.c.beginTransaction(); },
  async commit() { await this.c.commit(); },
  async rollback() { await this.c.rollback(); },
  async large(size) {
    const b = blob(Number(size));
    answer(await this.c.query('REPLACE INTO blobs VALUES (?, ?)', [1, b]));
    const [row] = await this.c.execute('SELECT b, LENGTH(b) AS n FROM blobs WHERE id = ?', [1]);
    out(`${row.b.length} bytes, ${row.n}, ${row.b.equals(b) ? 'equal' : 'DIFFERENT'}`);
  },
  async use(schema) { await this.c.query('USE ' + schema); },
  async ping() { await this.c.ping(); },
  async reset() { await this.c.reset(); },
  async change() {
    if (env.DRIVER_FLAVOUR === 'mysql') return NOT_OFFERED; // the driver refuses: MySQL's bug 83472
    await this.c.changeUser({ user: env.DRIVER_USER, password: env.DRIVER_PASSWORD, database: env.DRIVER_SCHEMA });
  },
  async close() {
    await this.c.end();
    if (this.second) await this.second.end();
  },
};

run(client);
