import { onTestFinished } from 'vitest';
import { createEmulatedClock } from '../../src/emulator/clock.ts';
import { dialectWith } from '../../src/emulator/dialect.ts';
import { type Emulator, type EmulatorOptions, startEmulator } from '../../src/emulator/server.ts';
import { EmulatorState } from '../../src/emulator/state.ts';
import { type Clock, systemClock } from '../../src/kit/clock.ts';

/** Fixed start time of the clock that replaces the real one, so that results are reproducible. */
export const NOON = Date.UTC(2026, 2, 14, 12);
export const HOUR = 3_600_000;

/** Returns a substitute for the real clock that advances only with `move`. */
export function handClock(time = NOON): Clock & { move(ms: number): void } {
  let now = time;
  return {
    ...systemClock,
    now: () => now,
    move(ms) {
      now += ms;
    },
  };
}

/** Scenario with all kinds of dead letters and callbacks. */
const scenario = 'neglected';

/** Starts a frozen emulator at noon and closes it when the test ends. */
export async function emulator(options: EmulatorOptions = {}): Promise<Emulator> {
  const started = await startEmulator({ clock: handClock(), speed: 0, scenario, ...options });
  onTestFinished(() => started.close());
  return started;
}

/** Starts a frozen emulator that is initially empty. */
export const emptyEmulator = (options: EmulatorOptions = {}) => emulator({ history: 0, dlqEntries: 0, ...options });

/** Creates emulator state with a manual clock that starts at noon. */
export function frozen(options: { seed?: number; scenario?: string; history?: number; dlqEntries?: number } = {}) {
  const clock = createEmulatedClock(handClock(), 0);
  const common = {
    clock,
    dialect: dialectWith({}),
    seed: 1,
    scenario,
    history: HOUR,
    dlqEntries: 200,
    maxEvents: 1_000_000,
  };
  const state = new EmulatorState({ ...common, ...options });
  return { clock, state };
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary fields of responses
  readonly body: any;
}

export async function ask({ url, token }: Emulator, path: string, init: RequestInit = {}): Promise<Answer> {
  const response = await fetch(url + path, { headers: { authorization: `Bearer ${token}` }, ...init });
  const text = await response.text();
  const isJson = response.headers.get('content-type')?.startsWith('application/json');
  return { status: response.status, text, body: isJson ? JSON.parse(text) : undefined };
}

export type Parameters = readonly (readonly [name: string, value: string])[];

/**
 * Yields the rows of a list page by page until the cursor is missing or empty. `between` runs after each page except
 * the last.
 */
export async function* pages(
  from: Emulator,
  list: 'dlq' | 'events',
  parameters: Parameters = [],
  between: (page: number) => void = () => {},
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary fields of rows
): AsyncGenerator<any[], void> {
  let cursor: string | undefined;
  for (let page = 0; ; page++) {
    const query = new URLSearchParams();
    for (const [name, value] of parameters) query.append(name, value);
    if (cursor) query.append('cursor', cursor);
    const { status, text, body } = await ask(from, `/v2/${list}?${query}`);
    if (status !== 200) throw new Error(`${status} ${text}`);
    yield body[list === 'dlq' ? 'messages' : 'events'];
    cursor = body.cursor;
    if (!cursor) return;
    between(page);
  }
}

/** Returns all rows of a list; parameters as in `pages`. */
export async function walk(
  from: Emulator,
  list: 'dlq' | 'events',
  parameters?: Parameters,
  between?: (page: number) => void,
  // biome-ignore lint/suspicious/noExplicitAny: tests read arbitrary fields of rows
): Promise<any[]> {
  const rows = [];
  for await (const page of pages(from, list, parameters, between)) rows.push(...page);
  return rows;
}

/** Returns the time at which a dead letter entered the queue, which its id contains. */
export const enteredAt = (row: { readonly dlqId: string }) => Number(row.dlqId.split('-')[0]);
