import { Command } from 'commander';
import { printableJson } from '../kit/text.ts';
import {
  describeMessage,
  describeStep,
  MESSAGE_FIELDS,
  messageJson,
  readMessage,
  type Step,
  utcText,
} from '../lookup/message.ts';
import { isSaneId } from '../upstream/api.ts';
import { configOption } from './config-option.ts';
import { repeated } from './option-values.ts';
import { loadAccounts, readAccounts, type SelectionOptions } from './read-alone.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

function stepTable(steps: readonly Step[]): string[] {
  if (steps.length === 0) return [];
  const rows = steps.map(step => {
    const { after, details } = describeStep(step, steps);
    return [utcText(step.time), after, step.state, details];
  });
  return [toTable(['time (UTC)', 'after', 'event', 'details'], rows, ['after']), ''];
}

function textOf(message: ReturnType<typeof messageJson>): string {
  const { events } = message;
  const fields = MESSAGE_FIELDS.flatMap(name => {
    const text = [message[name] ?? []].flat().join(', ');
    return text === '' ? [] : [[name, text]];
  });
  return [toTable(['field', 'value'], fields), '', ...stepTable(events), ...describeMessage(message), ''].join('\n');
}

export function messageCommand(): Command {
  const command = new Command('message');
  return command
    .description('print the timeline of a message: events, attempts, retries, dead letter and failure callback')
    .argument('<id>', 'message id')
    .addOption(configOption())
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .option('--json', 'print a JSON object per line')
    .action(async (id: string, options: SelectionOptions & { readonly json?: boolean }) => {
      if (!isSaneId(id)) command.error('error: the message id must be 1 to 200 of A-Z a-z 0-9 _ -');
      const loaded = loadAccounts(command, options);
      const signal = stopSignal();
      let isFound = false;
      const failed = await readAccounts(loaded, signal, async ({ name, at }) => {
        const message = await readMessage({ account: name, reader: at('background') }, id, signal);
        if (!message) return;
        const json = messageJson(message);
        process.stdout.write(options.json ? `${printableJson(json)}\n` : textOf(json));
        isFound = true;
      });
      const rest = isFound || failed.length === loaded.config.accounts.length ? '' : `; no other account has ${id}`;
      if (failed.length > 0) throw new Error(`not read: ${failed.join(', ')}${rest}`);
      if (!isFound)
        throw new Error(`neither the event log nor the dead-letter queue contains ${id}: it may have expired`);
    });
}
