import { hostname } from 'node:os';
import { Command } from 'commander';
import { noSuchName } from '../config/errors.ts';
import { loadConfig } from '../config/load.ts';
import { withClosing } from '../kit/closing.ts';
import type { Notice } from '../notify/notice.ts';
import { createReceivers } from '../notify/receivers.ts';
import { createPost } from '../upstream/post.ts';
import { configOption } from './config-option.ts';
import { commandGroup } from './option-values.ts';
import { realDeps } from './read-alone.ts';
import { stopSignal } from './until-stopped.ts';

/** Time after which Alertmanager ends the test notification (ms). */
const LASTS = 300_000;

function testNotice(notifier: string): Notice {
  return {
    status: 'firing',
    labels: { alertname: 'DeliveryTest', notifier, severity: 'info' },
    annotations: { summary: `This is a test of delivery-watch on ${hostname()}. Nothing is wrong.` },
    startsAt: realDeps.clock.now(),
    lasts: LASTS,
  };
}

/** Creates receivers and reads their secrets. Exits with 2 if a secret is missing. */
async function openReceivers(command: Command, settings: Parameters<typeof createReceivers>[0]) {
  try {
    const { all } = createReceivers(settings);
    for (const receiver of all) await receiver.identity();
    return all;
  } catch (error) {
    return command.error(`error: ${error instanceof Error ? error.message : String(error)}`);
  }
}

const test = () => {
  const command = new Command('test');
  return command
    .description(
      'send one test notification through a notifier, regardless of its severity and match, and print the response',
    )
    .argument('<name>', 'name of the notifier')
    .addOption(configOption())
    .action((name: string, { config: file }: { readonly config: string }) =>
      withClosing(async closing => {
        const { alerts, server } = loadConfig(file).config;
        const notifiers = alerts.notifiers.filter(each => each.name === name);
        const names = alerts.notifiers.map(each => each.name);
        if (notifiers.length === 0) command.error(`error: ${noSuchName('notifier', name, names)}`);
        const client = createPost();
        closing.add('the client', client.close);
        const config = { alerts: { ...alerts, notifiers }, server };
        const receivers = await openReceivers(command, { ...realDeps, post: client.post, config });
        const signal = stopSignal();
        let failed = 0;
        for (const { member, send } of receivers) {
          const { kind, answer } = await send([testNotice(name)], signal);
          const address = receivers.length > 1 ? ` (address ${member + 1})` : '';
          process.stdout.write(`${name}${address}: ${kind === 'ok' ? 'accepted' : 'not accepted'}, ${answer}\n`);
          if (kind !== 'ok') failed += 1;
        }
        if (failed > 0) throw new Error(`${name} did not accept the test notification`);
      }),
    );
};

export const notifyCommand = (): Command => commandGroup('notify', 'try a notifier', [test()]);
