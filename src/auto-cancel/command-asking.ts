import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import type { Clock } from '../kit/clock.ts';
import { NO_ACCOUNT, type Store } from '../store/store.ts';
import { merged } from './command-answers.ts';
import { ASKED, askedRow } from './command-spreading.ts';
import {
  ANSWER,
  type Answer,
  answerRow,
  COMMAND,
  type Command,
  type commandRow,
  commandShape,
  read,
} from './commands.ts';

/** Milliseconds between two looks for the answer. */
const LOOK_EVERY = 100;
/** Milliseconds from taking a command to its committed answer: the asking process waits this much longer before it gives up. */
const SETTLE = 1000;

interface Asking {
  readonly waitMs: number;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

const UNREADABLE: Answer = { ok: false, why: 'the running agent has another version: its answer is not readable' };
const answerOf = (value: string): Answer => read(answerRow, value)?.answer ?? UNREADABLE;

/** What has come so far: the answer of the one agent, or those of accounts. `accounts`: those that will answer, once that is known. */
interface Come {
  readonly whole: Answer | undefined;
  readonly accounts: readonly string[] | undefined;
  readonly answers: ReadonlyMap<string, Answer>;
  readonly keys: readonly string[];
}

/**
 * Gives a command to the running agent, or to all replicas, and waits for what they say. `no_agent`: none took it within
 * `waitMs` milliseconds. A pause, resume or reset then stays where it is, for the next agent to obey before anything else; so it
 * does of accounts that did not answer. An approve or explain is withdrawn. So it is when `signal` is aborted, whose reason is
 * then thrown. Throws StoreError, and a RangeError for what no agent would take.
 */
export async function ask(
  store: Pick<Store, 'scan' | 'commit'>,
  command: Command,
  { waitMs, clock, signal }: Asking,
): Promise<Answer | 'no_agent'> {
  const issue = commandShape.safeParse(command).error?.issues[0];
  if (issue) throw new RangeError([...issue.path, issue.message].join(': '));
  const id = randomUUID();
  const [asked, answered] = [COMMAND + id, ANSWER + id];
  const at = clock.now();
  const row: z.infer<typeof commandRow> = { at, takeUntil: at + waitMs, command };
  await store.commit(NO_ACCOUNT, [{ key: asked, value: JSON.stringify(row) }]);

  async function look(): Promise<Come> {
    const rows = await store.scan(NO_ACCOUNT, answered);
    const spread = await store.scan(NO_ACCOUNT, ASKED + id);
    const whole = rows.get(answered);
    const parts = [...rows].filter(([key]) => key !== answered);
    return {
      whole: whole === undefined ? undefined : answerOf(whole),
      accounts: read(askedRow, spread.get(ASKED + id))?.accounts,
      answers: new Map(parts.map(([key, value]) => [key.slice(answered.length + 1), answerOf(value)])),
      keys: [...rows.keys(), ...spread.keys()],
    };
  }

  const isWhole = ({ whole, accounts, answers }: Come) =>
    whole !== undefined || accounts?.every(account => answers.has(account)) === true;

  /** What all of it says together, removed from the store; undefined: nothing has come. */
  async function take({ whole, accounts, answers, keys }: Come): Promise<Answer | undefined> {
    // What can't be removed now the agent removes later.
    const remove = () =>
      store.commit(
        NO_ACCOUNT,
        keys.map(key => ({ key, value: null })),
      );
    if (keys.length > 0) await remove().catch(() => undefined);
    if (whole || !accounts || (answers.size === 0 && accounts.length > 0)) return whole;
    return merged(accounts, answers);
  }

  async function withdraw(): Promise<void> {
    const rows = await store.scan(NO_ACCOUNT, asked);
    await store.commit(
      NO_ACCOUNT,
      [asked, ...rows.keys()].map(key => ({ key, value: null })),
    );
  }

  async function wait(): Promise<Answer | undefined> {
    const end = clock.monotonic() + waitMs + SETTLE;
    try {
      while (clock.monotonic() < end) {
        const come = await look();
        if (isWhole(come)) return await take(come);
        await clock.sleep(LOOK_EVERY, signal);
      }
    } catch (error) {
      await withdraw();
      throw error;
    }
    await withdraw();
    // It may have come between the last look and the withdrawal.
    return take(await look());
  }

  return (await wait()) ?? 'no_agent';
}
