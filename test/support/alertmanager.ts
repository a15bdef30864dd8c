import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterThisTest } from './client.ts';
import { eventually } from './eventually.ts';
import { newFolder } from './folder.ts';
import { freePort } from './prometheus.ts';

/** Name of Alertmanager's executable in Debian. */
export const ALERTMANAGER = 'prometheus-alertmanager';

export interface AlertmanagerAlert {
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly fingerprint: string;
  readonly startsAt: string;
  readonly endsAt: string;
}

export interface Alertmanager {
  readonly url: string;
  /** Returns the firing alerts. */
  alerts(): Promise<AlertmanagerAlert[]>;
  /** Returns when Alertmanager last saved its notification log (ms since the Unix epoch). */
  savedAt(): number;
  /** Kills the process but keeps its data and address. */
  kill(): Promise<void>;
  /** Restarts the killed process. */
  startAgain(): Promise<void>;
}

/** A configuration that sends each alert to a webhook immediately. */
const notifyImmediately = (webhookUrl: string) => ({
  route: { receiver: 'hook', group_by: ['...'], group_wait: '0s', group_interval: '1s' },
  receivers: [{ name: 'hook', webhook_configs: [{ url: webhookUrl, send_resolved: true }] }],
});

/**
 * Starts a real Alertmanager with an empty store; it is stopped after the test. By default, it sends each alert to the webhook
 * immediately.
 */
export async function startAlertmanager(
  webhookUrl: string,
  config: object = notifyImmediately(webhookUrl),
  program = ALERTMANAGER,
): Promise<Alertmanager> {
  const folder = newFolder();
  const file = join(folder, 'alertmanager.yml');
  // Alertmanager reads YAML, which includes JSON.
  writeFileSync(file, JSON.stringify(config));
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const flags = [
    `--config.file=${file}`,
    `--storage.path=${join(folder, 'data')}`,
    `--web.listen-address=127.0.0.1:${port}`,
    '--cluster.listen-address=',
    // Save the notification log every second, so that it survives a kill.
    '--data.maintenance-interval=1s',
  ];
  let child: ChildProcess | undefined;
  const killNow = () => void child?.kill('SIGKILL');
  process.once('exit', killNow);
  async function kill(): Promise<void> {
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, 'exit');
    child.kill('SIGKILL');
    await ended;
  }
  async function start(): Promise<void> {
    child = spawn(program, flags, { stdio: 'ignore' });
    await eventually(async () => {
      const answer = await fetch(`${url}/-/ready`);
      if (!answer.ok) throw new Error(`Alertmanager is not ready: ${answer.status}`);
    });
  }
  afterThisTest(async () => {
    await kill();
    process.off('exit', killNow);
  });
  await start();
  return {
    url,
    async alerts() {
      const answer = await fetch(`${url}/api/v2/alerts?active=true`);
      return (await answer.json()) as AlertmanagerAlert[];
    },
    savedAt: () => statSync(join(folder, 'data', 'nflog')).mtimeMs,
    kill,
    startAgain: start,
  };
}
