import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import type { Log } from '../kit/log.ts';
import { BREAKERS } from '../model/journal.ts';
import type { Change, Store } from '../store/store.ts';

/** Commands concern the agent, not one account: their rows are those of an account that can't be configured. */
export const COMMAND_ACCOUNT = '';

const text = z.string().regex(/\S/, { error: 'must not be blank' });

const commandShape = z.discriminatedUnion('kind', [
  z.strictObject({ kind: z.enum(['pause', 'resume']), by: text, reason: text }),
  z.strictObject({ kind: z.literal('reset-breaker'), breaker: z.enum(BREAKERS), by: text, reason: text }),
  z.strictObject({ kind: z.literal('approve'), action: text, by: text }),
  z.strictObject({ kind: z.literal('explain'), dlqId: text, account: text.optional() }),
]);

/** What people may ask of the running agent from another process. */
export type Command = Readonly<z.infer<typeof commandShape>>;

/** `result`: what the command gives, as JSON. `why`: for people. */
export type Answer = { readonly ok: true; readonly result?: unknown } | { readonly ok: false; readonly why: string };

/** A command as the agent took it. */
export interface Taken {
  readonly id: string;
  /** When it was given, milliseconds since the Unix epoch. */
  readonly at: number;
  readonly command: Command;
}

const time = z.number();
const commandRow = z.strictObject({ at: time, takeUntil: time.nullable(), command: commandShape });
const answerRow = z.strictObject({
  at: time,
  answer: z.union([
    z.strictObject({ ok: z.literal(true), result: z.unknown().optional() }),
    z.strictObject({ ok: z.literal(false), why: z.string() }),
  ]),
});

const COMMAND = 'command/';
const ANSWER = 'answer/';
/** Milliseconds between two looks for the answer. */
const LOOK_EVERY = 100;
/** Milliseconds from taking a command to its committed answer: whoever asks waits so much longer before giving up. */
const SETTLE = 1000;
/** An answer that nobody fetched in this time, milliseconds, is nobody's. */
const STALE = 3_600_000;

/** Brakes hold whoever pulls them when no agent runs. Whatever acts or only tells is for the one who is there to see it. */
const isQueued = ({ kind }: Command) => kind !== 'approve' && kind !== 'explain';

/** The row's value in its shape; undefined when it is anything else: another version wrote it, or something is wrong. */
function read<T>(shape: z.ZodType<T>, value: string | undefined): T | undefined {
  try {
    return shape.safeParse(JSON.parse(value ?? 'null')).data;
  } catch {
    return undefined;
  }
}

/**
 * Gives a command to the running agent and waits for what it says. `no_agent`: none took it within `waitMs`
 * milliseconds. A pause, resume or reset then stays where it is, for the next agent to obey before anything else; an
 * approve or explain is withdrawn. So it is when `signal` is aborted, whose reason is then thrown. Throws StoreError, and a
 * RangeError for what no agent would take.
 */
export async function ask(
  store: Pick<Store, 'scan' | 'commit'>,
  command: Command,
  { waitMs, clock, signal }: { readonly waitMs: number; readonly clock: Clock; readonly signal: AbortSignal },
): Promise<Answer | 'no_agent'> {
  const issue = commandShape.safeParse(command).error?.issues[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  const id = randomUUID();
  const [asked, answered] = [COMMAND + id, ANSWER + id];
  const at = clock.now();
  const row: z.infer<typeof commandRow> = { at, takeUntil: isQueued(command) ? null : at + waitMs, command };
  await store.commit(COMMAND_ACCOUNT, [{ key: asked, value: JSON.stringify(row) }]);

  async function look(): Promise<Answer | undefined> {
    const value = (await store.scan(COMMAND_ACCOUNT, answered)).get(answered);
    if (value === undefined) return undefined;
    // What can't be removed now the agent removes later.
    await store.commit(COMMAND_ACCOUNT, [{ key: answered, value: null }]).catch(() => undefined);
    return read(answerRow, value)?.answer ?? { ok: false, why: 'the agent, of another version, gave no clear answer' };
  }

  const end = clock.monotonic() + waitMs + (isQueued(command) ? 0 : SETTLE);
  try {
    while (clock.monotonic() < end) {
      const answer = await look();
      if (answer) return answer;
      await clock.sleep(LOOK_EVERY, signal);
    }
  } catch (error) {
    if (!isQueued(command)) await store.commit(COMMAND_ACCOUNT, [{ key: asked, value: null }]);
    throw error;
  }
  if (!isQueued(command)) await store.commit(COMMAND_ACCOUNT, [{ key: asked, value: null }]);
  // It may have come between the last look and the withdrawal.
  return (await look()) ?? 'no_agent';
}

/**
 * The commands that wait, in the order in which they were given. Each is to be answered by `answerChanges`, in the
 * transaction that makes it so. Removes, and logs, what is no command, and what nobody waits for any more.
 */
export async function takeCommands(
  store: Pick<Store, 'scan' | 'commit'>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<readonly Taken[]> {
  const now = clock.now();
  const taken: Taken[] = [];
  const removed: Change[] = [];
  for (const [key, value] of await store.scan(COMMAND_ACCOUNT, COMMAND)) {
    const row = read(commandRow, value);
    if (row && (row.takeUntil === null || now <= row.takeUntil)) {
      taken.push({ id: key.slice(COMMAND.length), at: row.at, command: row.command });
      continue;
    }
    removed.push({ key, value: null });
    if (row) log.info({ kind: row.command.kind }, 'a command that nobody waits for any more was dropped');
    else log.warn({ bytes: value.length }, 'a row that is no command of this version was dropped');
  }
  for (const [key, value] of await store.scan(COMMAND_ACCOUNT, ANSWER)) {
    const at = read(answerRow, value)?.at ?? Number.NEGATIVE_INFINITY;
    // A clock that was set back makes it look as if it came later.
    if (Math.abs(now - at) > STALE) removed.push({ key, value: null });
  }
  if (removed.length > 0) await store.commit(COMMAND_ACCOUNT, removed);
  return taken.sort((a, b) => a.at - b.at || (a.id < b.id ? -1 : 1));
}

/** What answers a command, and takes it away: rows of `COMMAND_ACCOUNT`. `now`: milliseconds since the Unix epoch. */
export function answerChanges({ id }: Taken, answer: Answer, now: number): Change[] {
  const row: z.infer<typeof answerRow> = { at: now, answer };
  return [
    { key: COMMAND + id, value: null },
    { key: ANSWER + id, value: JSON.stringify(row) },
  ];
}
