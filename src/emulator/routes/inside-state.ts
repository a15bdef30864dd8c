import type { RequestHandler } from 'express';
import { fieldsOf } from '../dead-letter.ts';
import type { InsideParts } from './inside.ts';

const RECENT_MS = 5 * 60_000;

/** What the emulator really holds, counted row by row; for people and for tests that run elsewhere. */
export function showState({ state, credentials, faults, about }: InsideParts): RequestHandler {
  const { scenario, seed, speed } = about;
  return (_request, response) => {
    const { now, dlq, workflows, log } = state.current();
    const { lost } = state.logView;
    const byQueue = new Map<string, number>();
    const byResponseStatus = new Map<string, number>();
    const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1);
    for (const timeline of [dlq, workflows])
      timeline.forEach(entry => {
        count(byQueue, fieldsOf(entry).queueName ?? '(no queue)');
        count(byResponseStatus, String(entry.responseStatus));
      });
    response.json({
      now,
      scenario,
      seed,
      speed,
      dialect: state.dialect,
      calls: state.calls(),
      dlq: {
        total: dlq.size + workflows.size,
        ofWorkflows: workflows.size,
        byQueue: Object.fromEntries(byQueue),
        byResponseStatus: Object.fromEntries(byResponseStatus),
      },
      callbacks: {
        byState: state.countCallbacks(),
        cancels: state.cancels(),
        cancelCalls: state.tally.cancelCalls,
      },
      events: {
        windowMs: RECENT_MS,
        byState: state.countEvents({ from: now - RECENT_MS, to: now }),
        // Those that are kept, each once, listed or not; those that are never listed; and with those kept no more.
        logged: { byState: state.countEvents() },
        lost: { byState: state.countEvents({ within: lost ?? (() => false) }) },
        total: { byState: log.total },
      },
      eventsListedUntil: state.logView.until(now),
      log: { on: state.logView.on },
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
      keyRotations: credentials.keyRotations,
      faults: faults.list(),
    });
  };
}
