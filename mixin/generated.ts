import { DEFAULT_OBJECTIVES, shippedDashboards } from '../src/cli/shipped.ts';
import { dashboardsTemplate } from './dashboards.ts';
import { dashboardsReference } from './dashboards-reference.ts';
import { metricsReference } from './metrics-reference.ts';
import { ruleFiles, ruleResources, rulesTemplate } from './rules.ts';

const inFolder = (folder: string, files: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(files).map(([name, text]) => [`${folder}/${name}`, text]));

const dashboards = Object.entries(shippedDashboards({ objectives: DEFAULT_OBJECTIVES }, dashboardsTemplate));

/** Returns the generated files about metrics, rules and dashboards, by path in the repository. */
export const generatedFiles = (): Readonly<Record<string, string>> => ({
  'docs/metrics.md': metricsReference(),
  'docs/dashboards.md': dashboardsReference(),
  ...inFolder('mixin/templates', { 'rules.json': `${rulesTemplate}\n`, 'dashboards.json': `${dashboardsTemplate}\n` }),
  ...inFolder('dashboards/rules', ruleFiles()),
  ...Object.fromEntries(
    Object.entries(ruleResources()).map(([folder, text]) => [`deploy/kubernetes/${folder}/prometheus-rule.yaml`, text]),
  ),
  ...inFolder(
    'dashboards',
    Object.fromEntries(dashboards.map(([name, dashboard]) => [name, `${JSON.stringify(dashboard, null, 2)}\n`])),
  ),
});
