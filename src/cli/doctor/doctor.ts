import { Command } from 'commander';
import pLimit from 'p-limit';
import { accountMayAct } from '../../auto-cancel/options.ts';
import { ConfigError, formatError, type LoadedConfig, loadConfig } from '../../config/load.ts';
import type { Config } from '../../config/schema.ts';
import { createSecretValues } from '../../config/secrets.ts';
import { endWithin } from '../../kit/clock.ts';
import { type Closing, withClosing } from '../../kit/closing.ts';
import { Secret, type SecretSetting } from '../../kit/secret.ts';
import { printable, printableJson, someOf } from '../../kit/text.ts';
import { otlpAddress } from '../../telemetry/options.ts';
import { createDispatcher, createDispatchers } from '../../upstream/dispatcher.ts';
import { tokenSource } from '../../upstream/token.ts';
import { configOption } from '../config-option.ts';
import { realDeps } from '../read-alone.ts';
import { toTable } from '../table.ts';
import { stopSignal } from '../until-stopped.ts';
import { accountProbes, checkConnection } from './account.ts';
import { localProbes, warningsOf } from './local.ts';
import { type CheckLine, type DoctorDeps, fail, type Probe, runProbes, TIME_LIMIT } from './probe.ts';

/** Maximum number of accounts and receivers that are checked concurrently. */
const CONCURRENCY = 8;

/** Returns the probe for an invalid configuration, which all others need. */
function invalidProbe({ errors, warnings }: ConfigError): Probe {
  const found = errors.map(error => fail(formatError(error), 'fix it: docs/config.md'));
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
      // Separate connections, so that each account opens one whose certificate can be checked.
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
