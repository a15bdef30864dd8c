import { once } from 'node:events';
import { createServer } from 'node:http';
import { text } from 'node:stream/consumers';
import type { Config } from '../config/schema.ts';
import type { EmulatedAccount } from '../emulator/server.ts';
import { printable } from '../kit/text.ts';

type Rule = Config['autoCancel']['rules'][number];
type Filter = Config['collect']['dlq']['filters'][number];
type FailedRun = Parameters<EmulatedAccount['state']['addFailedRun']>[0];

/** Number of stuck callbacks for each rule, and of dead letters for each filter, in each account. */
const ENTRIES = 3;

/** Returns a matching value; undefined for a regular expression. `number` makes values with a prefix distinct. */
const example = (way: Rule['match']['url'], number: number): string | undefined =>
  way?.in?.[number % way.in.length] ?? (way?.prefix?.[0] === undefined ? undefined : `${way.prefix[0]}${number}`);

const FIELDS: Readonly<Record<keyof Rule['match'], (value: string) => FailedRun>> = {
  url: url => ({ url }),
  workflowUrl: workflowUrl => ({ workflowUrl }),
  failureCallbackUrl: failureCallback => ({ failureCallback }),
  label: label => ({ label }),
  queue: queueName => ({ queueName }),
  topic: topicName => ({ topicName }),
  schedule: scheduleId => ({ scheduleId }),
  flowControlKey: flowControlKey => ({ flowControlKey }),
  responseStatus: digits => ({ responseStatus: Number(digits.padEnd(3, '0').slice(0, 3)) }),
};

/** Rules skip entries without the fields in `except`, so these entries have all fields. */
const PLAIN: FailedRun = {
  url: 'https://rehearsal.example/',
  failureCallback: 'https://rehearsal.example/failed',
  // With more retries, a callback would take longer to count as stuck.
  maxRetries: 0,
  label: 'rehearsal',
  queueName: 'rehearsal',
  topicName: 'rehearsal',
  scheduleId: 'rehearsal',
  flowControlKey: 'rehearsal',
};

function stuckEntry(rule: Rule, number: number): FailedRun | undefined {
  const matching = Object.entries(rule.match).map(([key, way]) => {
    const value = example(way, number);
    return value === undefined ? undefined : FIELDS[key as keyof Rule['match']](value);
  });
  if (matching.includes(undefined)) return undefined;
  // Blind rules match only entries without a callback state, which the emulator omits if it is null.
  const callback: FailedRun = rule.evidence === 'blind' ? { callbackState: null } : {};
  return Object.assign({}, PLAIN, callback, ...matching);
}

/** Returns a dead letter that a filter matches; undefined if the filter uses ids or times. */
function filterEntry({ match }: Filter): FailedRun | undefined {
  const { messageId, fromDate, toDate, callerIp, responseStatus, ...fields } = match;
  if (messageId !== undefined || fromDate !== undefined || toDate !== undefined) return undefined;
  return {
    ...PLAIN,
    ...Object.fromEntries(Object.entries(fields).map(([key, value]) => [key, String(value)])),
    ...(callerIp === undefined ? {} : { callerIP: String(callerIp) }),
    ...(responseStatus === undefined ? {} : { responseStatus: Number(responseStatus) }),
  };
}

/** Adds a failed run with its event. */
function addRun(state: EmulatedAccount['state'] | undefined, run: NonNullable<FailedRun>): void {
  state?.addFailedRun(run);
  const { messageId, url } = run;
  state?.addEvent({ state: 'failed', ...(messageId && { messageId }), ...(url && { url }) });
}

/** Adds dead letters for rules and filters. Returns notes about rules and filters for which none could be added. */
export function addEntries(config: Config, accounts: readonly EmulatedAccount[]): string[] {
  const missing = new Set<string>();
  const { rules } = config.autoCancel;
  for (const [index, { name, collect }] of config.accounts.entries()) {
    const state = accounts[index]?.state;
    for (const filter of collect.dlq.filters) {
      const entry = filterEntry(filter);
      if (!entry) missing.add(`filter ${filter.name}: no entry can be made for messageId, fromDate or toDate`);
      else for (let number = 0; number < ENTRIES; number += 1) state?.addDlqEntry(entry);
    }
    for (const rule of rules) {
      if (rule.accounts && !rule.accounts.includes(name)) continue;
      for (let number = 0; number < ENTRIES; number += 1) {
        const entry = stuckEntry(rule, number);
        if (!entry) missing.add(`rule ${rule.name}: no entry can be made for matches alone; add in or prefix`);
        else addRun(state, { ...entry, messageId: `msg_rehearsal_${rule.name}_${number}` });
      }
    }
  }
  return [...missing];
}

/** Splits a line like a shell. Accepts a command as `auto-cancel pending` prints it, but ignores its `--config`. */
export function commandWords(line: string): string[] {
  const command = line.replace(/^\s*(delivery-watch\s+)?auto-cancel\s/, '');
  const words = (command.match(/('[^']*'|"[^"]*"|\\.|\S)+/g) ?? []).map(word =>
    word.replace(/'([^']*)'|"([^"]*)"|\\(.)/g, '$1$2$3'),
  );
  return words.filter((word, index) => !/^--config(=|$)/.test(word) && words[index - 1] !== '--config');
}

type Texts = Readonly<Record<string, string>>;

function linesOf(notifier: string, body: string): string[] {
  const alerts: { status?: string; labels?: Texts; annotations?: Texts }[] = JSON.parse(body).alerts ?? [];
  return alerts.map(({ status, labels = {}, annotations = {} }) => {
    const { alertname, ...others } = labels;
    const shown = Object.entries(others).map(([name, value]) => `${name}="${value}"`);
    const words = annotations.summary ?? annotations.description ?? '';
    return printable(`to ${notifier}: ${status} ${alertname}{${shown.join(', ')}} ${words}`.trimEnd());
  });
}

/** Starts a server on loopback that prints notifications. */
export async function startReceiver(print: (line: string) => void): Promise<{ url: string; close(): Promise<void> }> {
  const server = createServer((request, response) => {
    void text(request).then(body => {
      for (const line of linesOf((request.url ?? '').slice(1), body)) print(line);
      response.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}
