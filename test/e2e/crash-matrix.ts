import { afterAll, describe, expect, it, type TestContext } from 'vitest';
import { type Action, attemptsThatCount } from '../../src/auto-cancel/journal-state.ts';
import type { Dialect } from '../../src/emulator/dialect.ts';
import type { FaultSeed } from '../../src/emulator/faults.ts';
import type { WireCallbackState } from '../../src/emulator/message.ts';
import type { FinalOutcome } from '../../src/model/journal.ts';
import { eventually } from '../support/eventually.ts';
import { startHttpService } from '../support/http-service.ts';
import { isLook, type Scene, type Stage, setStage } from './stuck-callback.ts';

const CANCEL = 'DELETE /v2/workflows/dlq/callback/{dlqId}';

/** Response of the service to a cancel, and the required final outcome regardless of when the agent is killed. */
interface Variant {
  readonly dialect?: Partial<Dialect>;
  readonly fault?: Omit<FaultSeed, 'endpoint'>;
  /** Change to the entry between the agent's final check and its DELETE. */
  readonly changeEntry?: (stage: Stage) => void;
  readonly isForeign?: boolean;
  readonly actionToken?: Scene['actionToken'];
  readonly timeout?: string;
  readonly outcome: FinalOutcome;
  /** Final state of the callback; undefined if the entry is removed. */
  readonly callback: WireCallbackState | undefined;
  /** Expected result if a crash uses up the first of two attempts and the fault therefore affects the second one. */
  readonly second?: { readonly outcome: FinalOutcome; readonly callback: WireCallbackState };
  /** Whether the response alone, without a read-back, ends the action or permits a new attempt. */
  readonly isSettledByAnswer?: boolean;
  /** Whether the action stays open if a crash loses the first response: the second does not show the first cancel's result. */
  readonly staysOpen?: boolean;
}

const cancelled = { outcome: 'confirmed', callback: 'CALLBACK_CANCELED' } as const;
const inProgress = { outcome: 'gave_up', callback: 'CALLBACK_INPROGRESS' } as const;
const once = (fault: FaultSeed): Variant => ({ ...cancelled, fault: { ...fault, times: 1 }, timeout: '20s' });
const answered = (cancelAnswer: Dialect['cancelAnswer']): Variant => ({ ...cancelled, dialect: { cancelAnswer } });
const denied: Variant = { ...inProgress, outcome: 'expired', isSettledByAnswer: true, staysOpen: true };

const VARIANTS = {
  '302': answered('302'),
  '302 with a relative Location': answered('302-location'),
  '302 with its own URL as Location': answered('302-self'),
  '302 with another host as Location': { ...answered('302-location'), isForeign: true },
  '200': answered('200'),
  '202': answered('202'),
  '204': answered('204'),
  '400, callback ended': {
    outcome: 'superseded',
    callback: 'CALLBACK_SUCCESS',
    changeEntry({ emulator, stuck: [id = ''], callbackOf }) {
      if (callbackOf(id) === 'CALLBACK_INPROGRESS') emulator.state.setCallback(id, 'CALLBACK_SUCCESS');
    },
  },
  '400, callback invalid': { ...answered('400'), ...inProgress },
  '401': { ...denied, actionToken: 'void' },
  '403': { ...denied, actionToken: 'read-only' },
  '404': {
    outcome: 'gone',
    callback: undefined,
    isSettledByAnswer: true,
    changeEntry: ({ emulator, stuck: [id = ''] }) => void emulator.state.removeDlqEntry(id),
  },
  '429': { ...once({ kind: 'status', status: 429 }), isSettledByAnswer: true },
  '500, not applied': { ...once({ kind: 'status', status: 500 }), second: inProgress },
  '500, applied': once({ kind: 'status', status: 500, acts: true }),
  '500 each time': { ...inProgress, fault: { kind: 'status', status: 500 } },
  'no response, not applied': once({ kind: 'hang' }),
  'no response, applied': once({ kind: 'hang', acts: true }),
  'connection reset, not applied': once({ kind: 'reset' }),
  'connection reset, applied': once({ kind: 'reset', acts: true }),
} satisfies Record<string, Variant>;

interface Spot {
  readonly held?: string;
  readonly commit?: string;
}

/** Points at which the agent is killed: at a commit (see support/journal-crash.ts), or while a request is delayed. */
const POINTS = {
  never: {},
  'during the final check': { held: 'last look' },
  'before the intent is committed': { commit: 'before intent 1' },
  'after the intent is committed': { commit: 'after intent 1' },
  'before the DELETE takes effect': { held: 'request' },
  'after the DELETE took effect': { held: 'answer' },
  'before the response is committed': { commit: 'before answered 1' },
  'after the response is committed': { commit: 'after answered 1' },
  'during the read-back': { held: 'read-back' },
  'before the end is committed': { commit: 'before ended 1' },
  'after the end is committed': { commit: 'after ended 1' },
} as const satisfies Record<string, Spot>;

type Point = keyof typeof POINTS;

const all = Object.keys(POINTS) as Point[];
/** Points at which the response is handled. At all other points, responses with the same meaning have the same effect. */
const aroundAnswer: Point[] = ['never', 'before the response is committed', 'after the response is committed'];
/** Points that do not exist, or coincide with others, if the response settles the action. */
const afterSettled: Point[] = ['during the read-back', 'before the end is committed', 'after the end is committed'];

/** Points from the intent onwards. Earlier points do not depend on the response and leave no trace. */
const fromIntent = ['never' as const, ...all.slice(all.indexOf('after the intent is committed'))];
/** Points after which the first response is unknown. */
const unanswered: Point[] = all.slice(
  all.indexOf('after the intent is committed'),
  all.indexOf('after the response is committed'),
);
/** Points at which an attempt counts although its request does not take effect. */
const lost: Point[] = ['after the intent is committed', 'before the DELETE takes effect'];

/**
 * Tests every point with one response of each meaning. The agent cannot distinguish the omitted combinations from tested
 * ones: points before the intent, other responses with the same meaning outside `aroundAnswer`, and lost responses to an
 * executed DELETE.
 */
const POINTS_OF: Record<keyof typeof VARIANTS, Point[]> = {
  '302': all,
  '302 with a relative Location': aroundAnswer,
  '302 with its own URL as Location': aroundAnswer,
  '302 with another host as Location': aroundAnswer,
  '200': aroundAnswer,
  '202': aroundAnswer,
  '204': aroundAnswer,
  '400, callback ended': fromIntent,
  '400, callback invalid': fromIntent,
  '401': aroundAnswer,
  '403': fromIntent,
  '404': fromIntent,
  '429': fromIntent,
  '500, not applied': fromIntent,
  '500, applied': fromIntent,
  '500 each time': ['never', 'after the intent is committed', 'after the response is committed'],
  'no response, not applied': aroundAnswer,
  'no response, applied': fromIntent.filter(point => point !== 'after the DELETE took effect'),
  'connection reset, not applied': aroundAnswer,
  'connection reset, applied': aroundAnswer,
};

export const cases = Object.entries<Variant>(VARIANTS).flatMap(([name, variant]) =>
  POINTS_OF[name as keyof typeof VARIANTS]
    .filter(point => !(variant.isSettledByAnswer && afterSettled.includes(point)))
    .map(point => ({ name, variant, point })),
);

export type Case = (typeof cases)[number];

/** Responses equivalent to another one, or to a combination of two others. */
const ALIKE: readonly string[] = [
  '302 with a relative Location',
  '302 with its own URL as Location',
  '202',
  '204',
  '400, callback invalid',
  '403',
  '500 each time',
  'no response, not applied',
  'connection reset, applied',
] satisfies (keyof typeof VARIANTS)[];

/** Every point with the normal response, and one point of each other response that is not in `ALIKE`. */
export const some: readonly Case[] = [
  ...cases.filter(({ name }) => name === '302'),
  ...Object.keys(VARIANTS)
    .filter(name => name !== '302' && !ALIKE.includes(name))
    .map((name, index) => {
      const own = cases.filter(each => each.name === name);
      return own[index % own.length] as Case;
    }),
];

const figures = { cases: 0, kills: 0, deletes: 0, intents: 0, outcomes: new Map<string, number>() };

/** Starts the agent, kills it at the point and starts it again. */
async function dieAndRestart(stage: Stage, point: Point, reached: Promise<unknown>): Promise<void> {
  const spot: Spot = POINTS[point];
  if (point === 'never') return void stage.startAgent();
  const doomed = stage.startAgent(spot.commit);
  if (spot.held) {
    await reached;
    doomed.kill('SIGKILL');
  }
  expect(await doomed.ended).toBe('SIGKILL');
  figures.kills += 1;
  const agent = stage.startAgent();
  await agent.says(/is listening/);
}

/** Checks one case from the start of the agent to three walks after the action ended. */
async function check({ variant, point }: Case, { onTestFinished, expect }: TestContext): Promise<void> {
  const { dialect, fault, changeEntry, isForeign, actionToken, timeout, second } = variant;
  const { outcome, callback } = (lost.includes(point) && second) || variant;
  const staysOpen = variant.staysOpen === true && unanswered.includes(point);
  const onEnd = (close: () => Promise<unknown>) => void onTestFinished(async () => void (await close()));
  const foreign = await startHttpService((_request, response) => void response.end());
  onEnd(() => foreign.close());
  const spot: Spot = POINTS[point];
  const reached = Promise.withResolvers<void>();
  let isHeld = false;
  const hold = (place: string) => {
    if (isHeld || spot.held !== place) return undefined;
    isHeld = true;
    reached.resolve();
    return new Promise(() => undefined);
  };
  const stage: Stage = await setStage(onEnd, {
    emulator: { ...(dialect && { dialect }), faults: fault ? [{ ...fault, endpoint: CANCEL }] : [] },
    ...(actionToken && { actionToken }),
    ...(timeout && { upstream: { timeout } }),
    hooks: {
      before(request) {
        if (isLook(request)) return hold(stage.deletes.length === 0 ? 'last look' : 'read-back');
        if (request.method !== 'DELETE') return undefined;
        changeEntry?.(stage);
        return hold('request');
      },
      after(request, { headers }) {
        if (request.method !== 'DELETE') return undefined;
        if (isForeign && headers.location) headers.location = foreign.url + headers.location;
        return hold('answer');
      },
    },
  });
  const [id = ''] = stage.stuck;
  await dieAndRestart(stage, point, reached.promise);

  const { lines, state, actions } = await eventually(async () => {
    const now = await stage.journal();
    // An action that ended as expired may begin again, so only the journal names this end.
    const end = now.lines.findLast(({ step }) => step === 'ended');
    const ends = now.actions.map(
      ({ isOpen, ended }) => ended ?? (!isOpen && end?.step === 'ended' ? end.outcome : undefined),
    );
    expect(ends).toEqual([staysOpen ? undefined : outcome]);
    if (staysOpen) expect(now.lines.filter(({ step }) => step === 'answered')).toHaveLength(1);
    return now;
  });
  const received = stage.deletes.length;
  // A second action would start within three walks.
  const walks = stage.walks();
  await eventually(() => expect(stage.walks()).toBeGreaterThan(walks + 3));

  const intents = lines.filter(({ step }) => step === 'intent');
  expect(stage.violations).toEqual([]);
  expect(new Set([id, ...stage.deletes])).toEqual(new Set([id]));
  expect(stage.deletes.length).toBe(received);
  expect(received).toBeLessThanOrEqual(intents.length);
  // Attempts postponed by a 429 are not counted.
  expect(attemptsThatCount(actions[0] as Action)).toBeLessThanOrEqual(2);
  expect(Object.values(stage.emulator.state.cancels()).reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(
    received,
  );
  expect(stage.emulator.state.cancelCalls.filter(({ verdict }) => verdict === 'done').length).toBe(
    callback === 'CALLBACK_CANCELED' ? 1 : 0,
  );
  expect(stage.callbackOf(id)).toBe(callback);
  expect(stage.callbackOf(stage.healthy)).toBe('CALLBACK_INPROGRESS');
  expect(stage.emulator.state.findDlqEntry(stage.trap)).toBeDefined();
  expect(stage.emulator.state.calls()).not.toHaveProperty('DELETE /v2/dlq/{dlqId}');
  // Another test may still scrape an agent that used this port before.
  expect(foreign.requests.filter(request => request !== 'GET /metrics')).toEqual([]);

  // The journal contains exactly the lines committed by all processes, in order.
  const now = await stage.journal();
  expect(now.lines).toEqual(stage.traced());
  expect(now.lines).toEqual(lines);
  expect(actions[0]?.isOpen).toBe(staysOpen);
  expect(state.uses.length).toBe(intents.length);
  expect([...state.breakers.keys()]).toEqual(outcome === 'expired' ? ['errors'] : []);
  const [end] = lines.filter(({ step }) => step === 'ended').slice(-1);
  const [last] = lines.filter(({ step }) => step === 'answered').slice(-1);
  const wasAccepted = last?.step === 'answered' && last.answer.kind === 'accepted';
  if (outcome === 'confirmed')
    expect(end).toMatchObject(wasAccepted ? expect.not.objectContaining({ unproven: true }) : { unproven: true });

  figures.cases += 1;
  figures.deletes += received;
  figures.intents += intents.length;
  figures.outcomes.set(outcome, (figures.outcomes.get(outcome) ?? 0) + 1);
}

export function describeCases(chosen: readonly Case[]): void {
  describe('crash matrix', () => {
    afterAll(() => {
      const { outcomes, ...counts } = figures;
      const words = [...Object.entries(counts), ...[...outcomes].sort()].map(([word, count]) => `${count} ${word}`);
      process.stdout.write(`crash matrix: ${words.join(', ')}\n`);
    });

    it.concurrent.for(chosen)(
      'an auto-cancel action reaches the required outcome (service: $name; kill: $point)',
      check,
    );
  });
}
