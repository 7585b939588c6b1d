// Migrations, create, read, update, delete and transactions by Knex. It prints
// what it gets, to be compared between two servers.
'use strict';
const knexLibrary = require('knex');
const { out, show } = require('./script.js');

const env = process.env;
const knex = knexLibrary({
  client: 'mysql2',
  connection: { host: env.DRIVER_HOST, port: Number(env.DRIVER_PORT), user: env.DRIVER_USER, password: env.DRIVER_PASSWORD, database: env.DRIVER_SCHEMA, timezone: 'Z' },
  pool: { min: 0, max: 3 },
});

const migrations = {
  one: {
    async up(k) {
      await k.schema.createTable('authors', (t) => {
        t.bigIncrements('id');
        t.string('email', 80).index('by_email');
        t.string('name', 80).notNullable().defaultTo('nobody');
        t.decimal('paid', 10, 2);
        t.json('extra');
        t.datetime('seen', { precision: 3 });
        t.boolean('active').defaultTo(true);
      });
      await k.schema.createTable('books', (t) => {
        t.bigIncrements('id');
        t.bigInteger('author_id').unsigned().index();
        t.string('title', 100);
      });
    },
    down: (k) => k.schema.dropTable('books').dropTable('authors'),
  },
  two: {
    async up(k) {
      await k.schema.alterTable('authors', (t) => {
        t.string('city', 40).index();
        t.dropColumn('extra');
        t.renameColumn('seen', 'last_seen');
      });
    },
    down: (k) => k.schema.alterTable('authors', (t) => t.dropColumn('city')),
  },
};
const migrationSource = {
  getMigrations: async () => Object.keys(migrations),
  getMigrationName: (m) => m,
  getMigration: async (m) => migrations[m],
};

const failing = async (what, promise) => {
  try {
    out(`${what}: ${show(await promise)}`);
  } catch (e) {
    out(`${what}: error ${e.errno} ${e.sqlState} ${e.sqlMessage || e.message}`);
  }
};

(async () => {
  out(show(await knex.migrate.up({ migrationSource })));
  out(`tables ${await knex.schema.hasTable('authors')} ${await knex.schema.hasTable('nothing')} ${await knex.schema.hasColumn('authors', 'email')}`);
  out(show(await knex('authors').insert({ email: 'ada@x', name: 'Ada 🐬', paid: 12.5, extra: JSON.stringify({ a: 1 }), seen: new Date(Date.UTC(2024, 1, 29, 12, 0, 0, 5)) })));
  out(show(await knex('authors').insert([{ email: 'b@x', paid: 1 }, { email: 'c@x', paid: 2 }, { email: 'd@x', active: false }])));
  out(show(await knex('books').insert([{ author_id: 1, title: 'One' }, { author_id: 1, title: 'Two' }, { author_id: 3, title: 'Three' }])));
  out(show(await knex('authors').where({ email: 'ada@x' }).select('id', 'name', 'paid', 'seen', 'active').first()));
  out(show(await knex('authors').where('paid', '>', 1).orWhereNull('paid').orderBy('id').pluck('email')));
  out(show(await knex('authors').whereIn('id', [2, 4, 99]).orderBy('id')
    .select('email', 'active')));
  out(show(await knex('authors as a').join('books as b', 'b.author_id', 'a.id').orderBy('b.id').select('a.name', 'b.title')));
  out(show(await knex('books').groupBy('author_id').select('author_id').count({ n: '*' }).orderBy('author_id')));
  out(show(await knex('authors').sum({ s: 'paid' }).avg({ a: 'paid' }).max({ m: 'paid' }).count({ n: 'id' })));
  out(show(await knex('authors').orderBy('id', 'desc').limit(2).offset(1).select('id')));
  out(show(await knex('authors').whereExists(knex('books').select(knex.raw('1')).whereRaw('books.author_id = authors.id')).orderBy('id').pluck('id')));
  out(show(await knex('authors').distinct('name').orderBy('name')));
  out(show(await knex.with('w', knex('books').where('author_id', 1)).select('title').from('w').orderBy('title')));
  out(show(await knex('authors').where({ id: 2 }).select('id').union(knex('authors').where({ id: 3 }).select('id'))
    .then((r) => r.length)));
  out(show(await knex('authors').where({ email: 'b@x' }).update({ name: 'B' })));
  out(show(await knex('authors').where({ email: 'b@x' }).increment('paid', 5)));
  out(show(await knex('authors').insert({ id: 1, email: 'up@x', name: 'U' }).onConflict('id').merge(['name'])));
  out(show(await knex('authors').insert({ id: 1, email: 'ignored@x' }).onConflict('id').ignore()));
  await failing('duplicate', knex('authors').insert({ id: 1 }));
  await failing('no table', knex('nothing').select());
  await failing('rolled back', knex.transaction(async (tx) => {
    await tx('authors').insert({ email: 'rolled@x' });
    await tx('books').insert({ author_id: 1, title: 'Rolled' });
    throw new Error('back');
  }));
  await knex.transaction(async (tx) => {
    const [id] = await tx('authors').insert({ email: 'kept@x' });
    await failing('savepoint', tx.transaction(async (inner) => {
      await inner('authors').insert({ email: 'inner@x' });
      throw new Error('inner back');
    }));
    out(show(await tx('authors').where({ id }).forUpdate().first('email')));
  }, { isolationLevel: 'read committed' });
  out(show(await knex('authors').orderBy('id').pluck('email')));
  out(show(await knex('authors').where({ email: 'd@x' }).del()));
  out(show(await knex.raw('SELECT ? + 1 AS n, ?? FROM authors WHERE id = ?', [1, 'name', 1]).then(([rows]) => rows)));
  const streamed = [];
  for await (const row of knex('books').orderBy('id').select('title').stream()) streamed.push(row.title);
  out(show(streamed));
  out(show(await knex.migrate.latest({ migrationSource })));
  out(show(await knex.migrate.list({ migrationSource }).then(([done, rest]) => [done.map((m) => m.name), rest])));
  out(show(await knex('authors').columnInfo()));
  out(show(await knex.migrate.rollback({ migrationSource }, true)));
  out(`tables ${await knex.schema.hasTable('authors')}`);
  await knex.destroy();
})().catch((e) => {
  console.error(e);
  process.exit(1);
});
