// Runs the script (../script.txt) by a client object: each operation is a method.
'use strict';
const fs = require('fs');
const util = require('util');

const env = process.env;
exports.NOT_OFFERED = 'not offered';
exports.out = (line) => process.stdout.write(line + '\n');
exports.show = (value) => util.inspect(value, { depth: null, maxArrayLength: null, maxStringLength: null, breakLength: Infinity, compact: true, sorted: true });

exports.parameter = (text) => {
  const at = text.indexOf(':');
  const kind = at < 0 ? text : text.slice(0, at);
  const value = text.slice(at + 1);
  switch (kind) {
    case 'null': return null;
    case 'int': return Number.isSafeInteger(Number(value)) ? Number(value) : BigInt(value);
    case 'uint': return BigInt(value);
    case 'num': return Number(value);
    case 'bool': return value === '1';
    case 'hex': return Buffer.from(value, 'hex');
    default: return value; // drivers without a type for it take the text
  }
};

exports.blob = (size) => {
  const b = Buffer.alloc(size);
  for (let i = 0; i < size; i++) b[i] = i;
  return b;
};

exports.rowsOf = (parameters) => {
  const rows = [[]];
  for (const p of parameters) {
    if (p === ';') rows.push([]);
    else rows[rows.length - 1].push(exports.parameter(p));
  }
  return rows;
};

exports.run = async (client) => {
  for (const line of fs.readFileSync(env.DRIVER_SCRIPT, 'utf8').split('\n')) {
    if (line === '') continue;
    const [number, operation, ...args] = line.split('\t');
    exports.out('> ' + number);
    const began = Date.now();
    try {
      const said = await client[operation](...args);
      if (said) exports.out(said);
    } catch (e) {
      if (e.errno === undefined) throw e;
      exports.out(`error ${e.errno} ${e.sqlState} ${e.code} ${e.sqlMessage}`);
    }
    if (env.DRIVER_TIMES) console.error(`${number} ${operation} ${(Date.now() - began) / 1000}`);
  }
};
