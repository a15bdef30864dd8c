import type { ShippedRule } from '../src/cli/shipped.ts';
import { alertsWithoutRecord, yaml } from './rules.ts';

/** Uid of the data source in deploy/grafana/datasources. */
const DATASOURCE_UID = 'prometheus';

/** Replaces variables in templates by fields: Grafana may expand `$labels` as an environment variable. */
const inGrafana = (text: string) =>
  text.replaceAll('$labels.', '.Labels.').replaceAll('{{ $value }}', '{{ .Values.A }}');

function grafanaRule({ alert = '', expr, for: pending = '0s', labels, annotations = {} }: ShippedRule) {
  return {
    uid: alert,
    title: alert,
    condition: 'B',
    data: [
      {
        refId: 'A',
        relativeTimeRange: { from: 600, to: 0 },
        datasourceUid: DATASOURCE_UID,
        model: { refId: 'A', expr, instant: true, range: false, editorMode: 'code' },
      },
      // Fires for each series, as Prometheus does: all values exceed -1, because no expression returns negative values.
      {
        refId: 'B',
        datasourceUid: '__expr__',
        model: {
          refId: 'B',
          type: 'threshold',
          expression: 'A',
          conditions: [{ evaluator: { type: 'gt', params: [-1] } }],
        },
      },
    ],
    for: pending,
    noDataState: 'OK',
    // One rule reports an unavailable data source. The others keep their state.
    execErrState: alert === 'DeliveryAgentDown' ? 'Error' : 'KeepLast',
    missing_series_evals_to_resolve: 1,
    ...(labels && { labels }),
    annotations: Object.fromEntries(Object.entries(annotations).map(([name, text]) => [name, inGrafana(text)])),
  };
}

/** Returns the default set as alerts that Grafana evaluates, in the format of its provisioning files. */
export const grafanaAlerts = () =>
  yaml({
    apiVersion: 1,
    groups: [
      {
        orgId: 1,
        name: 'delivery-watch',
        folder: 'delivery-watch',
        interval: '1m',
        rules: alertsWithoutRecord.map(grafanaRule),
      },
    ],
  });
