import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import type { Change } from '../model/change.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';

const text = z.string().regex(/\S/, { error: 'must not be blank' });

export const commandShape = z.strictObject({ kind: z.literal('explain'), dlqId: text, account: text.optional() });

/** What operators may ask of the running agent from another process. */
export type Command = Readonly<z.infer<typeof commandShape>>;

/** `result`: what the command gives, as JSON. `why`: for the operator. `missing`: accounts that did not answer in time. */
export type Answer = { readonly missing?: readonly string[] } & (
  | { readonly ok: true; readonly result?: unknown }
  | { readonly ok: false; readonly why: string }
);

/** A command as the agent took it. */
export interface Taken {
  readonly id: string;
  /** When it was given, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly command: Command;
}

const time = z.number();
export const commandRow = z.strictObject({ at: time, takeUntil: time.nullable(), command: commandShape });
export const answerRow = z.strictObject({
  at: time,
  answer: z.union([
    z.strictObject({ ok: z.literal(true), result: z.unknown().optional() }),
    z.strictObject({ ok: z.literal(false), why: z.string() }),
  ]),
});

export const COMMAND = 'command/';
export const ANSWER = 'answer/';
/** Milliseconds after which an answer that was not fetched is removed. */
export const STALE = 3_600_000;

/** The row's value in its shape; undefined when it is anything else: another version wrote it, or something is wrong. */
export function read<T>(shape: z.ZodType<T>, value: string | undefined): T | undefined {
  try {
    return shape.safeParse(JSON.parse(value ?? 'null')).data;
  } catch {
    return undefined;
  }
}

/**
 * The commands that wait, in the order in which they were given. Each is to be answered by `answerChanges`, in the
 * transaction that makes it so. Removes, and logs, what is no command, and commands that expired.
 */
export async function takeCommands(
  store: Pick<Store, 'scan' | 'commit'>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<readonly Taken[]> {
  const now = clock.now();
  const taken: Taken[] = [];
  const removed: Change[] = [];
  for (const [key, value] of await store.scan(NO_ACCOUNT, COMMAND)) {
    const row = read(commandRow, value);
    if (row && (row.takeUntil === null || now <= row.takeUntil)) {
      taken.push({ id: key.slice(COMMAND.length), at: row.at, command: row.command });
      continue;
    }
    removed.push({ key, value: null });
    if (row) log.info({ kind: row.command.kind }, 'an expired command was dropped');
    else log.warn({ bytes: value.length }, 'a command that this version does not know was dropped');
  }
  for (const [key, value] of await store.scan(NO_ACCOUNT, ANSWER)) {
    const at = read(answerRow, value)?.at ?? Number.NEGATIVE_INFINITY;
    // A clock that was set back makes it look as if it came later.
    if (Math.abs(now - at) > STALE) removed.push({ key, value: null });
  }
  if (removed.length > 0) await store.commit(NO_ACCOUNT, removed);
  return taken.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
}

/**
 * What answers a command, and takes it away: rows of `NO_ACCOUNT`. `now`: milliseconds since the Unix epoch. `account`: the one
 * that answers, where each does by itself.
 */
export function answerChanges({ id }: Taken, answer: Answer, now: number, account?: string): Change[] {
  const row: z.infer<typeof answerRow> = { at: now, answer };
  const name = account === undefined ? id : `${id}/${account}`;
  return [
    { key: COMMAND + name, value: null },
    { key: ANSWER + name, value: JSON.stringify(row) },
  ];
}
