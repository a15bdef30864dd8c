#!/usr/bin/env node
// Plain JavaScript, which the link main.ts leads to: an older Node.js refuses any file whose own name ends with .ts, and imports by
// name that it does not have, before the version is compared below.
import fs from 'node:fs';
import module from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';

const NEEDED = 24;

/** What runs for months beside what it watches. All other commands end soon, and are to be fast. */
const STAYING = ['serve', 'demo'];

/**
 * For a small process: an idle agent takes some 25 MB less with these, many accounts half. Under load the same code is
 * compiled, some seconds later. (What V8 reads only when the heap is made, such as --max-semi-space-size, would do nothing
 * here.)
 */
const SMALL = [
  // Garbage here is pages that were folded: a young generation that never grows holds them.
  '--semi-space-growth-factor=1',
  // V8's own limit is hundreds of megabytes before the first collection of old garbage, then up to four times what lives; of a
  // small heap it is 8 MB more than that at least, without the second of these.
  '--heap-growing-percent=60',
  '--optimize-for-size',
  // Of what runs at the start alone, compiled code goes with the second collection, not the sixth.
  '--bytecode-old-age=2',
  // undici's HTTP parser is WebAssembly. To optimise it takes 10 MB, which the allocator keeps, and it is no bottleneck.
  '--no-wasm-tier-up',
  '--no-wasm-dynamic-tiering',
  // Fifty times the usual calls before a function is optimised: what runs four times a minute is fast enough without.
  '--invocation-count-for-maglev=20000',
  '--invocation-count-for-maglev-osr=5000',
  '--invocation-count-for-turbofan=150000',
  '--invocation-count-for-osr=25000',
];

/** Bytes that a disk must have free. On a full one, Node.js would leave an empty file for each that it can't write, at every start. */
const FREE = 32 * 2 ** 20;

/**
 * Keeps compiled code beside the code itself, for the next start. Who could write there could write the code, too; a folder that
 * others may write to, as in /tmp, could run theirs. Without such a folder, as in a read-only image, each start compiles anew.
 */
function keepCompiled() {
  const root = join(import.meta.dirname, '..');
  const folder = join(root, '.cache');
  const user = process.getuid?.();
  try {
    // In a folder of another user it would be in that user's way.
    if (fs.lstatSync(root).uid !== user) return;
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
    const found = fs.lstatSync(folder);
    const isSafe = found.isDirectory() && found.uid === user && (found.mode & 0o022) === 0;
    const { bavail, bsize } = fs.statfsSync(folder);
    if (isSafe && bavail * bsize >= FREE) module.enableCompileCache(folder);
  } catch {
    // Nothing can be written there.
  }
}

// Everything else is imported after this check.
if (Number(process.versions.node.split('.')[0]) < NEEDED) {
  process.stderr.write(`delivery-watch needs Node.js ${NEEDED} or newer; this is ${process.versions.node}\n`);
  process.exitCode = 2;
} else {
  // SIGHUP ends a process that does not listen to it, and systemd calls that a clean end. Until `serve` listens, the
  // configuration is not read: there is nothing to reload.
  if (process.argv[2] === 'serve') process.on('SIGHUP', () => {});
  if (STAYING.includes(process.argv[2] ?? '')) for (const flag of SMALL) setFlagsFromString(flag);
  keepCompiled();
  import('./cli/cli.ts')
    .then(({ runCli }) => runCli(process.argv.slice(2)))
    .then(code => {
      process.exitCode = code;
    });
}
