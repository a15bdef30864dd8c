import { statSync } from 'node:fs';
import { createServer } from 'node:http';
import { filesWithSecrets } from '../../config/files.ts';
import { formatError, type LoadedConfig } from '../../config/load.ts';
import { listen as openPort } from '../../http/listener.ts';
import { parseListen } from '../../http/options.ts';
import { errorCode } from '../../kit/error-code.ts';
import type { Env } from '../../kit/secret.ts';
import { plural, someOf } from '../../kit/text.ts';
import { inspectSqlite, lockHolder } from '../../store/database.ts';
import type { StoreOptions } from '../../store/options.ts';
import { type Diagnosis, fail, ok, type Probe, skip, warn } from './probe.ts';

const MIB = 2 ** 20;

export const warningsOf = (warnings: LoadedConfig['warnings']) =>
  warnings.map(each => warn(formatError(each), 'see docs/config.md'));

const mib = (bytes: number) => `${Math.round(bytes / MIB).toLocaleString('en-US')} MiB`;

/** Checks whether every user can read a file with secrets. Its group may read it, as in containers. */
function checkPermissions({ file, config }: LoadedConfig, env: Env): readonly Diagnosis[] {
  const files = filesWithSecrets(file, config, env);
  const open = files.filter(file => (statSync(file, { throwIfNoEntry: false })?.mode ?? 0) & 0o007);
  const found = open.map(file => warn(`${file} holds secrets, and other users may read it`, `chmod 600 ${file}`));
  if (found.length > 0) return found;
  return [
    ok(
      files.length > 0
        ? 'only owner and group may read the files with secrets'
        : 'the configuration and the files it names contain no secret',
    ),
  ];
}

/** Reads the store without a lock, because an agent may be running. */
async function checkStore({ kind, path, url, schema }: StoreOptions, env: Env): Promise<Diagnosis> {
  if (kind === 'memory') return ok('in memory: counters restart at 0 with each process');
  if (kind === 'sqlite') {
    const { file, version, size, holder } = inspectSqlite(path);
    if (version === undefined) return ok(`${file} does not exist yet; it can be created`);
    return ok(`${file}, schema ${version}, ${mib(size)}${holder === undefined ? '' : `; process ${holder} uses it`}`);
  }
  if (url === null) return skip('needs store.url');
  const { inspectPostgres } = await import('../../store/postgres.ts');
  const { subject, version, leader = 'no process' } = await inspectPostgres({ url, schema }, { env });
  if (version !== undefined) return ok(`${subject}, schema ${version}; ${leader} leads`);
  return ok(`${subject} has no tables in schema ${schema} yet; the agent creates them when it starts`);
}

/** Opens a port. If it is in use, the process that holds the store shows whether an agent may be using it. */
async function checkPort(listen: string, { kind, path }: StoreOptions): Promise<Diagnosis> {
  const server = createServer();
  try {
    await openPort(server, parseListen(listen));
    server.close();
    return ok(`${listen} is free`);
  } catch (error) {
    const { message, cause } = error as Error;
    if (errorCode(cause) !== 'EADDRINUSE')
      return fail(message, 'listen on an address of this machine, above port 1023');
  }
  const holder = kind === 'sqlite' ? lockHolder(path) : undefined;
  if (holder !== undefined) return ok(`${listen} is in use, probably by process ${holder}, which uses the store`);
  const isUnknown = kind !== 'sqlite' || process.platform !== 'linux';
  if (isUnknown) return warn(`${listen} is in use`, 'check whether this agent uses the port');
  return fail(`${listen} is in use by another program`, 'stop that program, or configure another port');
}

/** Returns the probes of this machine. */
export function localProbes(loaded: LoadedConfig, env: Env): readonly Probe[] {
  const { file, config, warnings } = loaded;
  const { listen, probesListen } = config.server;
  const names = config.accounts.map(({ name }) => name);
  const found = ok(`${file}, ${plural(names.length, 'account')}: ${someOf(names)}`);
  return [
    { name: 'configuration', run: () => [found, ...warningsOf(warnings)] },
    { name: 'permissions', run: () => checkPermissions(loaded, env) },
    { name: 'store', run: () => checkStore(config.store, env) },
    { name: 'port', run: () => checkPort(listen, config.store) },
    ...(probesListen === null ? [] : [{ name: 'port for probes', run: () => checkPort(probesListen, config.store) }]),
  ];
}
