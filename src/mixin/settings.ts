import type { Settings } from './panel.ts';
import { DEFAULTS } from './rules.ts';

/** What dashboards/ is generated with. */
export const SETTINGS: Settings = {
  places: { job: undefined, runbooks: DEFAULTS.runbooks, grafana: '', traces: '/explore' },
  expected: DEFAULTS.objectives,
};
