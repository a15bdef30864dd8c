import type { RequestHandler } from 'express';
import type { EmulatedCredentials } from '../credentials.ts';
import type { EmulatorState } from '../state.ts';

/** Creates a handler that shows the state, which is counted independently of the emulated API. Needs no token. */
export const showState =
  (state: EmulatorState, credentials: EmulatedCredentials, scenario: string): RequestHandler =>
  (_request, response) => {
    const { now, dlq, workflows } = state.current();
    const byResponseStatus: Record<string, number> = {};
    for (const timeline of [dlq, workflows])
      timeline.forEach(({ responseStatus }) => {
        byResponseStatus[responseStatus] = (byResponseStatus[responseStatus] ?? 0) + 1;
      });
    response.json({
      now,
      scenario,
      calls: state.calls(),
      dlq: { total: dlq.size + workflows.size, ofWorkflows: workflows.size, byResponseStatus },
      callbacks: { byState: state.countCallbacks(), cancelCalls: state.tally.cancelCalls },
      events: { byState: state.countEvents(), listedUntil: state.logView.until(now) },
      waitlists: Object.fromEntries(state.waitlists()),
      tokenResets: credentials.resets,
    });
  };
