import type { RequestHandler } from 'express';
import type { EmulatorState } from '../state.ts';

/** All flow-control keys; the service has no pages here. */
export function listFlowControl(state: EmulatorState): RequestHandler {
  return (_request, response) => {
    const flowControls = [...state.waitlists()].map(([flowControlKey, waitListSize]) => ({
      flowControlKey,
      waitListSize,
    }));
    response.json({ flowControls });
  };
}
