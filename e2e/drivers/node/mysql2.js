'use strict';
const fs = require('fs');
const mysql = require('mysql2/promise');
const { NOT_OFFERED, out, show, parameter, rowsOf, blob, run } = require('./script.js');

const env = process.env;

const connect = (...options) => mysql.createConnection({
  host: env.DRIVER_HOST, port: Number(env.DRIVER_PORT), user: env.DRIVER_USER,
  password: options.includes('wrong') ? 'wrong' : env.DRIVER_PASSWORD,
  database: options.includes('noschema') ? undefined : env.DRIVER_SCHEMA,
  charset: 'utf8mb4', timezone: 'Z', supportBigNumbers: true, bigNumberStrings: false, multipleStatements: true,
  // MariaDB tells of JSON columns by extended metadata, which Shunt doesn't offer.
  jsonStrings: env.DRIVER_FLAVOUR === 'mariadb',
  connectAttributes: { program_name: 'the driver matrix' },
  compress: options.includes('compress'),
  ssl: options.includes('tls') ? { ca: fs.readFileSync(env.DRIVER_CA), checkServerIdentity: () => undefined, rejectUnauthorized: true } : undefined,
});

const fieldText = (f) => `column ${f.name} type ${f.columnType} length ${f.columnLength} flags ${f.flags} decimals ${f.decimals} charset ${f.characterSet} ${f.schema}.${f.table}.${f.orgTable}.${f.orgName}`;

const answer = (result, fields) => {
  if (!Array.isArray(result)) {
    const { affectedRows, insertId, warningStatus, changedRows } = result;
    // Without what the server says of its optimizer (NO_GOOD_INDEX_USED,
    // NO_INDEX_USED, QUERY_WAS_SLOW) and of session tracking.
    const serverStatus = result.serverStatus & ~(16 | 32 | 2048 | 16384);
    // mysql2 leaves the length byte in front of it unless the server offers session
    // tracking, which Shunt doesn't.
    const info = result.info.replace(/^[^A-Z](?=[A-Z])/, '');
    out(show({ affectedRows, insertId, info, warningStatus, changedRows, serverStatus }));
    return;
  }
  for (const f of fields) out(fieldText(f));
  for (const row of result) out('row ' + show(Object.values(row)));
  out(`${result.length} rows`);
};

const client = {
  async connect(...options) {
    if (this.c) await this.c.end();
    this.c = null;
    this.c = await connect(...options);
  },
  async query(sql) { answer(...await this.c.query(sql)); },
  async other(sql) {
    this.second = this.second || await connect();
    answer(...await this.second.query(sql));
  },
  async prepared(sql, ...p) {
    this.statement = sql;
    await this.again(...p);
  },
  async again(...p) { answer(...await this.c.execute(this.statement, p.map(parameter))); },
  async batch(sql, ...p) {
    const statement = await this.c.prepare(sql);
    for (const row of rowsOf(p)) answer(...await statement.execute(row));
    await statement.close();
  },
  async multi(sql) {
    const [results, fields] = await this.c.query(sql);
    results.forEach((r, i) => answer(r, fields[i]));
  },
  async stream(sql) {
    let n = 0;
    for await (const row of this.c.connection.query(sql).stream({ highWaterMark: 5 })) {
      n++;
      out('row ' + show(Object.values(row)));
    }
    out(`${n} rows`);
  },
  cursor() { return NOT_OFFERED; },
  async begin() { await this.c.beginTransaction(); },
  async commit() { await this.c.commit(); },
  async rollback() { await this.c.rollback(); },
  async load(sql) {
    const [, file] = /'([^']*)'/.exec(sql);
    const [result] = await this.c.query({ sql, infileStreamFactory: () => fs.createReadStream(file) });
    answer(result);
  },
  async large(size) {
    const b = blob(Number(size));
    answer(...await this.c.execute('REPLACE INTO blobs VALUES (?, ?)', [1, b]));
    const [[row]] = await this.c.execute('SELECT b, LENGTH(b) AS n FROM blobs WHERE id = ?', [1]);
    out(`${row.b.length} bytes, ${row.n}, ${row.b.equals(b) ? 'equal' : 'DIFFERENT'}`);
    const [[text]] = await this.c.query('SELECT b FROM blobs WHERE id = 1');
    out(`by text ${text.b.equals(b) ? 'equal' : 'DIFFERENT'}`);
  },
  async use(schema) { await this.c.query('USE ' + schema); },
  async ping() { await this.c.ping(); },
  async reset() {
    if (!this.c.reset) return NOT_OFFERED;
    await this.c.reset();
  },
  async change() { await this.c.changeUser({ user: env.DRIVER_USER, password: env.DRIVER_PASSWORD, database: env.DRIVER_SCHEMA, charset: 'utf8mb4' }); },
  async close() {
    await this.c.end();
    if (this.second) await this.second.end();
  },
};

run(client);
