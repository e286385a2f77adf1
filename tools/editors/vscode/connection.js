'use strict';
// JSON-RPC with a program over its standard input and output: each message behind a header that says
// how many bytes it has.

const { spawn } = require('child_process');

class Connection {
  /** `notified(method, params)`: of the program. `ended(why)`: it is gone, or never came. */
  constructor(command, args, { notified, ended }) {
    this.notified = notified;
    this.answers = new Map();
    this.requests = 0;
    this.bytes = Buffer.alloc(0);
    this.open = true;
    this.process = spawn(command, args, { stdio: ['pipe', 'pipe', 'ignore'] });
    const end = (why) => {
      if (!this.open) return;
      this.open = false;
      this.answers.forEach(({ reject }) => reject(new Error(why)));
      this.answers.clear();
      ended(why);
    };
    this.process.on('error', (error) => end(`\`${command}\` cannot be run: ${error.message}`));
    this.process.on('exit', (code) => end(`\`${command}\` ended with ${code}`));
    this.process.stdin.on('error', () => {});  // `exit` tells
    this.process.stdout.on('data', (bytes) => this.read(bytes));
  }

  read(bytes) {
    this.bytes = Buffer.concat([this.bytes, bytes]);
    for (;;) {
      const end = this.bytes.indexOf('\r\n\r\n');
      if (end < 0) return;
      const [, length] = /Content-Length: *(\d+)/i.exec(this.bytes.toString('latin1', 0, end)) ?? [];
      const next = end + 4 + Number(length);
      if (this.bytes.length < next) return;
      const message = JSON.parse(this.bytes.toString('utf8', end + 4, next));
      this.bytes = this.bytes.subarray(next);
      this.receive(message);
    }
  }

  receive({ id, method, params, result, error }) {
    if (method !== undefined) {
      this.notified(method, params);
      return;
    }
    const answer = this.answers.get(id);
    this.answers.delete(id);
    if (error) answer?.reject(new Error(error.message));
    else answer?.resolve(result);
  }

  send(message) {
    if (!this.open) return;
    const body = Buffer.from(JSON.stringify({ jsonrpc: '2.0', ...message }));
    this.process.stdin.write(`Content-Length: ${body.length}\r\n\r\n`);
    this.process.stdin.write(body);
  }

  notify(method, params) {
    this.send({ method, params });
  }

  request(method, params) {
    if (!this.open) return Promise.reject(new Error('the language server is not running'));
    const id = ++this.requests;
    return new Promise((resolve, reject) => {
      this.answers.set(id, { resolve, reject });
      this.send({ id, method, params });
    });
  }
}

module.exports = { Connection };
