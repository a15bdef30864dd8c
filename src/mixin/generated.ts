import { renamedTable } from '../metrics/renamed.ts';
import { dashboardsReference } from './dashboards-reference.ts';
import { metricsReference } from './metrics-reference.ts';
import { printedDashboards } from './printed-dashboards.ts';
import { prometheusRule, ruleFiles } from './rules.ts';

/** Every file that is derived from the metric families, by its path in the repository. */
export function generatedFiles(): Readonly<Record<string, string>> {
  return {
    'docs/metrics.md': metricsReference(),
    'docs/dashboards.md': dashboardsReference(),
    ...Object.fromEntries(Object.entries(ruleFiles()).map(([name, text]) => [`dashboards/rules/${name}`, text])),
    'deploy/kubernetes/prometheus-rule.yaml': prometheusRule(),
    ...Object.fromEntries(
      Object.entries(printedDashboards()).map(([name, dashboard]) => [
        `dashboards/${name}`,
        `${JSON.stringify(dashboard, null, 2)}\n`,
      ]),
    ),
  };
}

/** docs/upgrading.md, written by hand, with the table of what was renamed in its place. */
export const withRenamed = (page: string): string =>
  page.replace(/(?<=<!-- renamed:.*-->\n)[\s\S]*(?=<!-- \/renamed -->)/, `\n${renamedTable()}\n\n`);
