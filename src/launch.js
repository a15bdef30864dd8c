#!/usr/bin/env node
// Plain JavaScript without imports: an older Node.js cannot load TypeScript, and must reach this check.
// Earlier versions print a warning about node:sqlite between the lines of the log.
const [major, minor] = [24, 15];
const [ownMajor, ownMinor] = process.versions.node.split('.').map(Number);

if (ownMajor < major || (ownMajor === major && ownMinor < minor)) {
  process.stderr.write(`delivery-watch needs Node.js ${major}.${minor} or newer; this is ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  import('./main.ts');
}
