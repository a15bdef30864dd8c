#!/usr/bin/env node
// Plain JavaScript without imports: an older Node.js cannot load TypeScript, and must reach this check.
const NEEDED = 24;

if (Number(process.versions.node.split('.')[0]) < NEEDED) {
  process.stderr.write(`delivery-watch needs Node.js ${NEEDED} or newer; this is ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  import('./main.ts');
}
