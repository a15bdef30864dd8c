import { Command } from 'commander';
import { plural, printable } from '../kit/text.ts';
import {
  type Message,
  type Missing,
  messageFields,
  messageJson,
  messageTimeline,
  readMessage,
  type Step,
  type Timeline,
  timelineOf,
} from '../lookup/message.ts';
import { durationText } from '../rules/checks/words.ts';
import { isSaneId } from '../upstream/api.ts';
import { repeated } from './option-values.ts';
import { loadAccounts, readAccounts, type SelectionOptions } from './read-alone.ts';
import { toTable } from './table.ts';
import { stopSignal } from './until-stopped.ts';

const utc = (time: number) => new Date(time).toISOString().replace('T', ' ').replace('Z', '');
/** Formats a duration: `85 ms`, `8.5 s`, `3 min 12 s`. */
const duration = (ms: number) =>
  ms < 1000 ? `${ms} ms` : ms < 10_000 ? `${Math.floor(ms / 100) / 10} s` : durationText(ms / 1000);

const answer = (status: number) => (status === 0 ? 'no response' : `status ${status}`);

function detailsOf({ time, attempt, took, status, dueAt }: Step): string {
  return [
    ...(attempt === undefined ? [] : [`attempt ${attempt}`]),
    ...(status === undefined ? [] : [answer(status)]),
    ...(took === undefined ? [] : [`took ${duration(took)}`]),
    ...(dueAt === undefined ? [] : [`next delivery ${utc(dueAt)} (${duration(dueAt - time)} later)`]),
  ].join(', ');
}

function stepTable(steps: readonly Step[]): string[] {
  if (steps.length === 0) return [];
  const start = steps[0]?.time ?? 0;
  const rows = steps.map(step => [utc(step.time), duration(step.time - start), step.state, detailsOf(step)]);
  return [toTable(['time (UTC)', 'after', 'event', 'details'], rows, ['after']), ''];
}

const MISSING: Readonly<Record<Missing, string>> = {
  all: 'The event log no longer contains any event of this message.',
  creation: 'The event log no longer contains the creation of this message. Earlier attempts are unknown.',
  end: 'The event log no longer contains the end of this message.',
  unread: 'The message has too many events. Only the newest were read.',
};

function resultOf({ outcome, duration: total, attempts, steps, missing }: Timeline): string[] {
  if (steps.length === 0 || missing.includes('end')) return [];
  const due = steps.at(-1)?.dueAt;
  const next = due === undefined ? '' : `; the next delivery is due at ${utc(due)}`;
  const count = `${missing.length > 0 ? 'at least ' : ''}${plural(attempts, 'attempt')}`;
  const after = total === undefined ? '' : `${duration(total)} and `;
  return [outcome ? `Result: ${outcome} after ${after}${count}.` : `In flight after ${count}${next}.`];
}

function deadLetterOf({ entry }: Message): string[] {
  if (!entry) return ['Not in the dead-letter queue.'];
  const { dlqId, responseStatus, callbackState, enteredAt } = entry;
  const since = enteredAt === undefined ? '' : ` since ${utc(enteredAt)}`;
  const last = responseStatus === undefined ? '' : `, last attempt: ${answer(responseStatus)}`;
  return [
    `In the dead-letter queue${since}${dlqId === undefined ? '' : `, dlqId ${dlqId}`}${last}.`,
    ...(callbackState === undefined ? [] : [`Failure callback: ${callbackState}.`]),
  ];
}

function textOf(message: Message): string {
  const timeline = messageTimeline(message);
  const fields = Object.entries(messageFields(message)).flatMap(([name, value]) =>
    value === undefined ? [] : [[name, value]],
  );
  const { callbackEvents } = message;
  return [
    toTable(['field', 'value'], fields),
    '',
    ...stepTable(timeline.steps),
    ...[...resultOf(timeline), ...deadLetterOf(message), ...timeline.missing.map(part => MISSING[part])].map(printable),
    ...(callbackEvents.length === 0 ? [] : ['', 'Events of the failure callback:', '']),
    ...stepTable(timelineOf(callbackEvents, false, false).steps),
    '',
  ].join('\n');
}

export function messageCommand(): Command {
  const command = new Command('message');
  return command
    .description('print the timeline of a message: events, attempts, retries, dead letter and failure callback')
    .argument('<id>', 'message id')
    .requiredOption('--config <file>', 'configuration file')
    .option('--account <name>', 'only this account; may be repeated', repeated)
    .option('--json', 'print a JSON object per line')
    .action(async (id: string, options: SelectionOptions & { readonly json?: boolean }) => {
      if (!isSaneId(id)) command.error('error: the message id must be 1 to 200 of A-Z a-z 0-9 _ -');
      const loaded = loadAccounts(command, options);
      const { enabled, lifecycle } = loaded.config.tracing;
      const signal = stopSignal();
      let isFound = false;
      const failed = await readAccounts(loaded, signal, async ({ name, at }) => {
        const source = { account: name, reader: at('background'), isTraced: enabled && lifecycle.enabled };
        const message = await readMessage(source, id, signal);
        if (!message) return;
        process.stdout.write(options.json ? `${JSON.stringify(messageJson(message))}\n` : textOf(message));
        isFound = true;
      });
      if (failed.length > 0) throw new Error(`not read: ${failed.join(', ')}`);
      if (!isFound)
        throw new Error(`neither the event log nor the dead-letter queue contains ${id}: it may have expired`);
    });
}
