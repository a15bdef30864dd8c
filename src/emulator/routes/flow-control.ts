import type { KeyDetail } from '../flow-control.ts';
import type { EmulatorState } from '../state.ts';
import type { Handler } from './endpoint.ts';

/** Returns a key as a row. `size`: field name of its waitlist size. */
export function keyRow(
  { dialect }: Pick<EmulatorState, 'dialect'>,
  flowControlKey: string,
  key: KeyDetail,
  size: string,
): object {
  const { parallelism, rate, period, running, started } = key;
  const newer = {
    parallelismMax: parallelism ?? 0,
    parallelismCount: running,
    rateMax: rate ?? 0,
    rateCount: rate === undefined ? 0 : started,
    ratePeriod: rate === undefined ? 0 : (period ?? 1),
    // The only time in this API that is in seconds.
    ratePeriodStart: rate === undefined ? 0 : Math.floor(key.periodStart / 1000),
    isPaused: key.paused,
    isPinnedParallelism: key.isPinned ?? false,
    isPinnedRate: false,
  };
  const row = { flowControlKey, [size]: key.waiting, ...(dialect.flowControlFields === 'all' ? newer : {}) };
  if (dialect.flowControlZeros === 'present') return row;
  return Object.fromEntries(Object.entries(row).filter(([name, value]) => name === 'flowControlKey' || value));
}

export const listFlowControl: Handler = (state, _request, response) => {
  response.json({ flowControls: [...state.keys()].map(([name, key]) => keyRow(state, name, key, 'waitListSize')) });
};

export const getFlowControlKey: Handler = (state, _request, response, name) => {
  const { flowControlKeySize, idleKey } = state.dialect;
  const key = state.keys().get(name);
  const isIdle = key?.waiting === 0 && key.running === 0;
  if (key && !(isIdle && idleKey === 'missing')) response.json(keyRow(state, name, key, flowControlKeySize));
  else response.status(404).json({ error: 'Flow Control key not found' });
};

/** `POST /v2/flowControl/{key}/pause` and `/resume`. */
export const pauseFlowControlKey: Handler = (state, _request, response, path) => {
  const [, name = '', action] = /^(.+)\/(pause|resume)$/s.exec(path) ?? [];
  if (action === undefined) response.status(404).json({ error: `not found: ${path}` });
  else if (state.flow.change(name, { paused: action === 'pause' })) response.status(200).end();
  else response.status(400).json({ error: 'Flow Control key not found' });
};
