import { formatOf, INSTANT, linksOf, targetsOf, valueName } from './fields.ts';
import { mappingsOf, stepsOf } from './palette.ts';
import type { Column, TableSpec } from './panel.ts';

const override = (name: string, properties: Readonly<Record<string, unknown>>) => ({
  matcher: { id: 'byName', options: name },
  properties: Object.entries(properties).map(([id, value]) => ({ id, value })),
});

function cellOf({ words, bar, thresholds }: Column): Readonly<Record<string, unknown>> {
  const steps = thresholds ? { thresholds: stepsOf(thresholds), color: { mode: 'thresholds' } } : {};
  if (words) return { 'custom.cellOptions': { type: 'color-background', mode: 'basic' }, mappings: mappingsOf(words) };
  if (bar) {
    return {
      'custom.cellOptions': { type: 'gauge', mode: 'basic', valueDisplayMode: 'text' },
      color: { mode: 'fixed', fixedColor: 'blue' },
      min: 0,
      // Of this column alone, not of the whole table.
      ...(bar.full === undefined ? { fieldMinMax: true } : { max: bar.full }),
      ...steps,
    };
  }
  return thresholds ? { 'custom.cellOptions': { type: 'color-text' }, ...steps } : {};
}

function columnOverride(column: Column) {
  const width = column.width === undefined ? {} : { 'custom.width': column.width };
  const format = formatOf(column.unit ?? 'count', '–');
  return override(column.title, { ...format, ...width, ...cellOf(column), ...linksOf(column.links) });
}

const labelOverride = (title: string, links: TableSpec['links']) =>
  links?.[title] ? [override(title, linksOf(links[title]))] : [];

export function table({ labels, columns, sortBy, links, noValue, unit = 'count' }: TableSpec) {
  // Where there are no such labels, there are no such columns.
  const titles = { ...('account' in labels ? { cluster: 'Cluster', namespace: 'Namespace' } : {}), ...labels };
  const names = columns.map(({ title }, index) => [valueName(index, columns.length), title] as const);
  const renameByName = { ...titles, ...Object.fromEntries(names) };
  const organize = {
    excludeByName: { Time: true, job: true },
    indexByName: Object.fromEntries(Object.keys(renameByName).map((name, index) => [name, index])),
    renameByName,
  };
  const [first = ''] = sortBy;
  return {
    type: 'table',
    fieldConfig: {
      defaults: {
        ...formatOf(unit, noValue),
        color: { mode: 'thresholds' },
        thresholds: stepsOf({ warning: 1, critical: 1, calm: 'text' }),
        custom: { align: 'auto', filterable: false, cellOptions: { type: 'auto' } },
      },
      overrides: [
        ...Object.values(titles).flatMap(title => labelOverride(title, links)),
        ...columns.map(columnOverride),
      ],
    },
    options: {
      showHeader: true,
      cellHeight: 'sm',
      sortBy: sortBy.map(displayName => ({ displayName, desc: true })),
    },
    transformations: [
      ...(columns.length > 1 ? [{ id: 'merge', options: {} }] : []),
      { id: 'organize', options: organize },
      { id: 'sortBy', options: { sort: [{ field: first, desc: true }] } },
    ],
    targets: targetsOf(
      columns.map(({ expr }) => ({ expr, legend: '' })),
      { ...INSTANT, format: 'table' },
    ),
  };
}
