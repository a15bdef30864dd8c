import * as common from '@grafana/grafana-foundation-sdk/common';
import {
  type DynamicConfigValue,
  FieldColorBuilder,
  FieldColorModeId,
} from '@grafana/grafana-foundation-sdk/dashboard';
import { PromQueryFormat } from '@grafana/grafana-foundation-sdk/prometheus';
import { PanelBuilder } from '@grafana/grafana-foundation-sdk/table';
import { dashboardLinks, formatOf, instant, valueName } from './grafana.ts';
import { mappingsOf, stepsOf, textMappingsOf } from './palette.ts';
import type { ColumnSpec, PanelLink, TableSpec } from './panel.ts';

type Properties = Readonly<Record<string, unknown>>;

const propertiesOf = (properties: Properties): DynamicConfigValue[] =>
  Object.entries(properties).map(([id, value]) => ({ id, value }));

const linkProperties = (links: readonly PanelLink[] = []): Properties =>
  links.length === 0 ? {} : { links: dashboardLinks(links).map(link => link.build()) };

function cellOf({ words, bar, thresholds }: ColumnSpec): Properties {
  const steps = thresholds
    ? { thresholds: stepsOf(thresholds).build(), color: { mode: FieldColorModeId.Thresholds } }
    : {};
  if (words) {
    const cell: common.TableColoredBackgroundCellOptions = {
      type: common.TableCellDisplayMode.ColorBackground,
      mode: common.TableCellBackgroundDisplayMode.Basic,
    };
    // Empty cells are transparent.
    const thresholds = stepsOf({ warning: 1, critical: 1, calm: 'transparent' }).build();
    return { 'custom.cellOptions': cell, mappings: mappingsOf(words), thresholds };
  }
  if (bar) {
    const cell: common.TableBarGaugeCellOptions = {
      type: common.TableCellDisplayMode.Gauge,
      mode: common.BarGaugeDisplayMode.Basic,
      valueDisplayMode: common.BarGaugeValueMode.Text,
    };
    return {
      'custom.cellOptions': cell,
      color: { mode: FieldColorModeId.Fixed, fixedColor: 'blue' },
      min: 0,
      // Scales the bars by the values of this column instead of those of the complete table.
      ...(bar.full === undefined ? { fieldMinMax: true } : { max: bar.full }),
      ...steps,
    };
  }
  return thresholds ? { 'custom.cellOptions': { type: common.TableCellDisplayMode.ColorText }, ...steps } : {};
}

const widthOf = (width: number | undefined): Properties => (width === undefined ? {} : { 'custom.width': width });

const columnProperties = (column: ColumnSpec): Properties => ({
  ...formatOf(column.unit ?? 'count', column.noValue ?? '–'),
  ...widthOf(column.width),
  ...cellOf(column),
  ...linkProperties(column.links),
});

export function tablePanel({ labels, columns, sortBy, links = {}, texts = {}, widths = {} }: TableSpec): PanelBuilder {
  // Grafana omits columns of labels that no series has.
  const titles = { ...('account' in labels ? { cluster: 'Cluster', namespace: 'Namespace' } : {}), ...labels };
  const names = columns.map(({ title }, index) => [valueName(index, columns.length), title] as const);
  const renameByName = { ...titles, ...Object.fromEntries(names) };
  const indexByName = Object.fromEntries(Object.keys(renameByName).map((name, index) => [name, index]));
  const [first = ''] = sortBy;
  const panel = new PanelBuilder()
    .colorScheme(new FieldColorBuilder().mode(FieldColorModeId.Thresholds))
    .thresholds(stepsOf({ warning: 1, critical: 1, calm: 'text' }))
    .align(common.FieldTextAlignment.Auto)
    .filterable(false)
    .cellOptions({ type: common.TableCellDisplayMode.Auto })
    .showHeader(true)
    .cellHeight(common.TableCellHeight.Sm)
    .sortBy(sortBy.map(title => new common.TableSortByFieldStateBuilder().displayName(title).desc(true)))
    .targets(
      instant(
        columns.map(({ expr }) => ({ expr, legend: '' })),
        PromQueryFormat.Table,
      ),
    );
  if (columns.length > 1) panel.withTransformation({ id: 'merge', options: {} });
  panel
    .withTransformation({
      id: 'organize',
      options: { excludeByName: { Time: true, __name__: true, job: true }, indexByName, renameByName },
    })
    .withTransformation({ id: 'sortBy', options: { sort: [{ field: first, desc: true }] } });
  for (const title of Object.values(titles)) {
    const mapped = texts[title] ? { mappings: textMappingsOf(texts[title]) } : {};
    // Without a unit, Grafana would format an id that consists of digits as a number; without `noValue`, an empty label would
    // have the text of an empty table.
    const text = { unit: 'string', noValue: '–', ...widthOf(widths[title]) };
    panel.overrideByName(title, propertiesOf({ ...text, ...mapped, ...linkProperties(links[title]) }));
  }
  for (const column of columns) panel.overrideByName(column.title, propertiesOf(columnProperties(column)));
  return panel;
}
