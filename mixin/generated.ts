import { shippedDashboards } from '../src/cli/shipped.ts';
import { dashboardsTemplate } from './dashboards.ts';
import { grafanaAlerts } from './grafana-alerts.ts';
import { ruleFiles, rulesTemplate } from './rules.ts';

const inFolder = (folder: string, files: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}`, text]));

const dashboards = Object.entries(shippedDashboards({}, dashboardsTemplate));

/** Returns the generated files about rules and dashboards, by path in the repository. */
export const generatedFiles = (): Readonly<Record<string, string>> => ({
  ...inFolder('mixin/templates', { 'rules.json': `${rulesTemplate}\n`, 'dashboards.json': `${dashboardsTemplate}\n` }),
  ...ruleFiles(),
  'deploy/grafana/alerting/rules.yaml': grafanaAlerts(),
  ...inFolder(
    'dashboards',
    Object.fromEntries(dashboards.map(([name, dashboard]) => [name, `${JSON.stringify(dashboard, null, 2)}\n`])),
  ),
});
