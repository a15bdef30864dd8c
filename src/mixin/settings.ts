import type { Settings } from './panel.ts';
import { PLACES } from './rules.ts';

/** What dashboards/ is generated with. */
export const SETTINGS: Settings = {
  places: { job: undefined, runbooks: PLACES.runbooks, grafana: '', traces: '/explore' },
  expected: { delivered: 0.99, onTime: 0.99, onTimeWithin: 300_000, window: 30 * 86_400_000, dlqMaxAge: 86_400_000 },
};
