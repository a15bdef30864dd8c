import type { Objectives } from '../metrics/objectives.ts';
import { DASHBOARDS } from './alert.ts';
import { toDashboard } from './dashboard-json.ts';
import type { Places, Settings } from './panel.ts';
import { DEFAULTS } from './rules.ts';

/** What dashboards/ is generated with. */
export const SETTINGS: Settings = {
  places: { runbooks: '', grafana: '', traces: '/explore' },
  expected: DEFAULTS.objectives,
};

const withoutEnd = (url: string) => url.replace(/\/+$/, '');

/** Every dashboard as Grafana reads it, by its file name. */
export function printedDashboards(
  given: Partial<Places> = {},
  expected: Objectives = SETTINGS.expected,
): Readonly<Record<string, object>> {
  const { runbooks, grafana, ...places } = { ...SETTINGS.places, ...given };
  const settings = { places: { ...places, runbooks: withoutEnd(runbooks), grafana: withoutEnd(grafana) }, expected };
  const names = Object.keys(DASHBOARDS) as (keyof typeof DASHBOARDS)[];
  return Object.fromEntries(names.map(name => [`${name}.json`, toDashboard(name, settings)]));
}
