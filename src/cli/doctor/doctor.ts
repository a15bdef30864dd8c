import pLimit from 'p-limit';
import { Agent } from 'undici';
import { ConfigError, formatError, type LoadedConfig, loadConfig, loadStoreSettings } from '../../config/load.ts';
import { replicaUrlOf } from '../../config/replica-url.ts';
import { createSecretValues } from '../../config/secrets.ts';
import { withClosing } from '../../kit/closing.ts';
import { plural, someOf } from '../../kit/text.ts';
import type { StoreOptions } from '../../store/options.ts';
import { createDispatchers } from '../../upstream/dispatcher.ts';
import { type CheckLine, type Checklist, createChecklist, type DoctorDeps, fail, ok, skip, warn } from './checklist.ts';
import { checkPermissions, checkStopFile } from './files.ts';
import { checkPort } from './ports.ts';
import { checkReceivers } from './receivers.ts';
import { checkService } from './service.ts';
import { checkDisk, checkStore, holderOf } from './store.ts';

const AT_A_TIME = 8;

async function storeLines(list: Checklist, options: StoreOptions, env: DoctorDeps['env']): Promise<void> {
  await list.check('store', () => checkStore(options, env));
  await list.check('disk', () => checkDisk(options));
}

async function withoutConfig(
  file: string,
  { errors, warnings }: ConfigError,
  env: DoctorDeps['env'],
  list: Checklist,
): Promise<void> {
  for (const error of errors) {
    await list.check('configuration', () => fail(formatError(error), 'fix it: docs/config.md'));
  }
  for (const each of warnings) await list.check('configuration', () => warn(formatError(each), 'see docs/config.md'));
  try {
    await storeLines(list, loadStoreSettings(file).store, env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    await list.check('store', () => skip('needs configuration'));
  }
  for (const name of ['permissions', 'port', 'accounts', 'notifiers']) {
    await list.check(name, () => skip('needs configuration'));
  }
}

async function localLines({ file, config, hash, warnings }: LoadedConfig, deps: DoctorDeps, list: Checklist) {
  const names = config.accounts.map(({ name }) => name);
  await list.check('configuration', () => ok(`${file}, ${plural(names.length, 'account')}: ${someOf(names)}`));
  for (const each of warnings) await list.check('configuration', () => warn(formatError(each), 'see docs/config.md'));
  for (const found of checkPermissions(file, config)) await list.check('permissions', () => found);
  await storeLines(list, config.store, deps.env);
  await list.check('stop file', () => checkStopFile(config));
  await withClosing(async closing => {
    const dispatcher = new Agent({ connect: { rejectUnauthorized: false } });
    closing.add('connections', () => dispatcher.destroy());
    const { listen, probesListen, webConfigFile, allowedHosts } = config.server;
    const [hostHeader] = allowedHosts;
    const urlOf = (server: Pick<typeof config.server, 'listen' | 'webConfigFile'>) =>
      replicaUrlOf({ ...config.server, ...server, replicaUrl: null }, {}, '127.0.0.1');
    const isGuarded = webConfigFile !== null;
    const port = { dispatcher, hash, holder: holderOf(config.store), hostHeader, isGuarded, url: urlOf(config.server) };
    await list.check('port', signal => checkPort(listen, port, signal));
    if (probesListen === null) return;
    const probes = { ...port, isGuarded: true, url: urlOf({ listen: probesListen, webConfigFile: null }) };
    await list.check('port for probes', signal => checkPort(probesListen, probes, signal));
  });
}

async function accountLines({ config }: LoadedConfig, deps: DoctorDeps): Promise<CheckLine[]> {
  return withClosing(async closing => {
    const dispatchers = createDispatchers(deps.env);
    const secrets = createSecretValues(config, deps.env);
    closing.add('connections', () => dispatchers.destroy());
    const checked = { ...deps, config, dispatchers, secrets };
    const lines = await pLimit(AT_A_TIME).map(config.accounts, account => checkService(account, checked));
    return lines.flat();
  });
}

/** Checks everything that a configuration requires, without side effects. Rejects only with the signal's reason. */
export async function examine(file: string, deps: DoctorDeps) {
  const list = createChecklist(deps);
  let loaded: LoadedConfig;
  try {
    loaded = loadConfig(file, deps.env);
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    await withoutConfig(file, error, deps.env, list);
    return { lines: list.lines, isConfigValid: false };
  }
  await localLines(loaded, deps, list);
  const [accounts, receivers] = await Promise.all([accountLines(loaded, deps), checkReceivers(loaded.config, deps)]);
  return { lines: [...list.lines, ...accounts, ...receivers], isConfigValid: true };
}
