#!/usr/bin/env node
// Nothing is imported before the version is known, so that an old Node.js says what it lacks instead of a syntax error.
const NEEDED = 24;

if (Number(process.versions.node.split('.')[0]) < NEEDED) {
  process.stderr.write(`delivery-watch needs Node.js ${NEEDED} or newer; this is ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  const { setFlagsFromString } = await import('node:v8');
  // Garbage here is pages that were folded: a young generation that never grows keeps an idle sidecar some 14 MB smaller.
  // (--max-semi-space-size is read only when the heap is made, so it would do nothing here.)
  setFlagsFromString('--semi-space-growth-factor=1');
  const { runCli } = await import('./cli/cli.ts');
  process.exitCode = await runCli(process.argv.slice(2));
}

export {};
