#!/usr/bin/env node
// Nothing is imported before the version is known, so that an old Node.js says what it lacks instead of a syntax error.
const NEEDED = 24;

if (Number(process.versions.node.split('.')[0]) < NEEDED) {
  process.stderr.write(`delivery-watch needs Node.js ${NEEDED} or newer; this is ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  const { setFlagsFromString } = await import('node:v8');
  // Most garbage here is short-lived pages: a small young generation keeps an idle sidecar small.
  setFlagsFromString('--max-semi-space-size=2');
  const { runCli } = await import('./cli/cli.ts');
  process.exitCode = await runCli(process.argv.slice(2));
}

export {};
