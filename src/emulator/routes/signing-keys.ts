import type { Credentials } from '../credentials.ts';
import type { EmulatorState } from '../state.ts';
import type { Endpoint } from './endpoint.ts';
import { getFlowControlKey } from './flow-control.ts';
import { parametersOf } from './request.ts';

/** Makes the next signing key the current one: a receiver that misses two rotations rejects every message. */
export function rotateKeys(credentials: Credentials): Endpoint['answer'] {
  return (_request, response) => {
    credentials.rotateKeys();
    response.json(credentials.signingKeys);
  };
}

/**
 * What the interface document calls "Get Flow Control Key" at this path: it does not say where the key goes, so a
 * parameter is taken. Nothing rotates, whatever the real service may do.
 */
export function keyInsteadOfKeys(state: EmulatorState): Endpoint['answer'] {
  const answer = getFlowControlKey(state);
  return (request, response) => {
    const parameters = parametersOf(request);
    const key = parameters.get('flowControlKey') || parameters.get('key');
    if (key) answer(request, response, key);
    else response.status(400).json({ error: 'flowControlKey is missing' });
  };
}
