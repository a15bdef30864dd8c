import { statSync } from 'node:fs';
import { createServer } from 'node:http';
import { Command } from 'commander';
import pLimit from 'p-limit';
import { accountMayAct } from '../../auto-cancel/options.ts';
import { filesWithSecrets } from '../../config/files.ts';
import { ConfigError, formatError, type LoadedConfig, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { createSecretValues } from '../../config/secrets.ts';
import { listen as openPort } from '../../http/listener.ts';
import { parseListen } from '../../http/options.ts';
import { endWithin } from '../../kit/clock.ts';
import { type Closing, withClosing } from '../../kit/closing.ts';
import { errorCode } from '../../kit/error-code.ts';
import { type Env, Secret, type SecretSetting } from '../../kit/secret.ts';
import { plural, printable, printableJson, someOf } from '../../kit/text.ts';
import { inspectSqlite, lockHolder } from '../../store/database.ts';
import type { StoreOptions } from '../../store/options.ts';
import { otlpAddress } from '../../telemetry/options.ts';
import { createDispatcher, createDispatchers } from '../../upstream/dispatcher.ts';
import { tokenSource } from '../../upstream/token.ts';
import { configOption } from '../config-option.ts';
import { realDeps } from '../read-alone.ts';
import { toTable } from '../table.ts';
import { stopSignal } from '../until-stopped.ts';
import {
  accountProbes,
  type CheckLine,
  checkConnection,
  type Diagnosis,
  type DoctorDeps,
  fail,
  ok,
  type Probe,
  runProbes,
  skip,
  TIME_LIMIT,
  warn,
} from './account.ts';

const MIB = 2 ** 20;

const warningsOf = (warnings: LoadedConfig['warnings']) =>
  warnings.map(each => warn(formatError(each), 'see docs/config.md'));

const mib = (bytes: number) => `${Math.round(bytes / MIB).toLocaleString('en-US')} MiB`;

/** Checks that only owner and group can read files with secrets. Containers often need the group's access. */
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

/** Opens a port. If it is in use, the lock of the store shows whether an agent probably uses the port. */
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

function localProbes(loaded: LoadedConfig, env: Env): readonly Probe[] {
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

/** Maximum number of accounts and receivers that are checked concurrently. */
const CONCURRENCY = 8;

function invalidProbe({ errors, warnings }: ConfigError): Probe {
  const found = errors.map(error => fail(formatError(error), 'see docs/config.md'));
  return { name: 'configuration', run: () => [...found, ...warningsOf(warnings)] };
}

/** Returns the probes that connect to receivers and send nothing. Their findings contain only scheme, host and port. */
function receiverProbes(config: Config, { env, clock }: DoctorDeps, closing: Closing): readonly Probe[] {
  const { alerts, heartbeat, tracing } = config;
  const probeOf = (name: string, address: SecretSetting): Probe => ({
    name,
    async run() {
      const url = URL.parse((await tokenSource(address, env)()).reveal());
      if (!url) return fail('the address is invalid', 'check the file or variable that contains the address');
      const dispatcher = createDispatcher({ connectTimeout: TIME_LIMIT });
      closing.add('connections', () => dispatcher.destroy());
      return checkConnection(dispatcher, url, clock.now());
    },
  });
  return [
    ...alerts.notifiers.flatMap(({ name, alertmanager, webhook }) => [
      ...(alertmanager?.urls ?? []).map(literal => probeOf(`notifier ${name}`, { literal })),
      ...(webhook ? [probeOf(`notifier ${name}`, webhook.url)] : []),
    ]),
    ...(heartbeat ? [probeOf('heartbeat', heartbeat.url)] : []),
    ...(tracing.enabled ? [probeOf('tracing', { literal: new Secret(otlpAddress(tracing.endpoint, env).url) })] : []),
  ];
}

/** Checks everything that a configuration requires, without side effects. Rejects only with the signal's reason. */
export async function examine(file: string, deps: DoctorDeps) {
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig(file, deps.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { lines: await runProbes([invalidProbe(error)], deps), isConfigValid: false };
  }
  const { config } = loaded;
  const secrets = createSecretValues(config, deps.env);
  return withClosing(async closing => {
    const accounts = config.accounts.map(settings => {
      // Do not share connections: each account must open its own, so that the certificate can be checked.
      const dispatchers = createDispatchers(deps.env);
      closing.add('connections', () => dispatchers.destroy());
      return accountProbes(settings, accountMayAct(config, settings.name), { ...deps, secrets, dispatchers });
    });
    const receivers = receiverProbes(config, deps, closing).map(probe => [probe]);
    const jobs = [localProbes(loaded, deps.env), ...accounts, ...receivers];
    const lines = await pLimit(CONCURRENCY).map(jobs, probes => runProbes(probes, deps));
    return { lines: lines.flat(), isConfigValid: true };
  });
}

/** Time to wait for abandoned look-ups and connections (ms). */
const LINGER = 1000;

const nameOf = ({ account, check }: CheckLine) => (account === undefined ? check : `${account}: ${check}`);

function toText(lines: readonly CheckLine[]): string {
  const rows = lines.map(line => [line.status, nameOf(line), line.detail + (line.todo ? ` → ${line.todo}` : '')]);
  return toTable(['', 'check', 'found → what to do'], rows);
}

export function doctorCommand(): Command {
  const command = new Command('doctor')
    .description(
      'check configuration, permissions, store, ports, the network path to the service, tokens and each endpoint; changes nothing, even while an agent runs; exit 1 if a check fails, 2 if the configuration is invalid',
    )
    .addOption(configOption())
    .option('--json', 'print JSON')
    .action(async ({ config: file, json }: { config: string; json?: boolean }) => {
      const { lines, isConfigValid } = await examine(file, { ...realDeps, signal: stopSignal() });
      endWithin(LINGER);
      process.stdout.write(`${json ? printableJson({ checks: lines }, 2) : toText(lines)}\n`);
      const failed = lines.filter(({ status }) => status === 'fail');
      if (failed.length === 0) return;
      const message = printable(`failed: ${someOf([...new Set(failed.map(nameOf))])}`);
      if (!isConfigValid) command.error(message, { exitCode: 2 });
      throw new Error(message);
    });
  return command;
}
