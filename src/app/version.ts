import { readFileSync } from 'node:fs';

/** The version of this package: `package.json` lies two folders up, from src/ as from dist/. */
export const version = (
  JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }
).version;
