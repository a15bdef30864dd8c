import { isKnownProperty } from './grafana.ts';
import { type Panel, warn } from './model.ts';

/** Options of all panel types that the drawing supports or that are invisible in a picture. */
const COMMON = [
  /^(id|type|title|description|transparent|pluginVersion|interval|maxDataPoints)$/,
  /^(gridPos|datasource|transformations)\b/,
  /^targets\[\]\.(refId|expr|legendFormat|format|instant|range|interval|hide|datasource\..*|editorMode|intervalFactor|queryType)$/,
  /^fieldConfig\.overrides\[\]\.matcher\./,
  // The direction of repeated panels, and options that only affect pointer interaction.
  /^repeatDirection$/,
  /^options\.tooltip\./,
  /^links\[\]\./,
];

const REDUCED = [/^options\.(reduceOptions|text)\b/, /^options\.orientation$/];

/** Further supported or invisible options, by panel type. */
const BY_TYPE: Readonly<Record<string, readonly RegExp[]>> = {
  timeseries: [
    /^options\.legend\.(showLegend|displayMode|placement|calcs|width|sortBy|sortDesc|limit|isVisible|asTable)\b/,
  ],
  stat: [
    ...REDUCED,
    /^options\.(colorMode|graphMode|justifyMode|textMode|wideLayout|showPercentChange|percentChangeColorMode)$/,
  ],
  bargauge: [
    ...REDUCED,
    /^options\.(displayMode|valueMode|namePlacement|showUnfilled|sizing|minVizWidth|minVizHeight|maxVizHeight)$/,
    /^options\.legend\.showLegend$/,
  ],
  table: [
    /^options\.(frameIndex|showHeader|showTypeIcons|cellHeight)$/,
    /^options\.(sortBy|frozenColumns)\b/,
    /^options\.footer\.(show|countRows|reducer)\b/,
  ],
  'state-timeline': [
    /^options\.(mergeValues|showValue|alignValue|rowHeight|perPage)$/,
    /^options\.legend\.(showLegend|displayMode|placement|calcs)\b/,
  ],
  heatmap: [
    /^options\.(calculate|cellGap|selectionMode|showValue)$/,
    /^options\.color\.(scheme|steps|reverse|exponent|fill|mode|scale)$/,
    /^options\.(filterValues\.le|legend\.show|yAxis\..*|rowsFrame\..*|cellValues\..*)$/,
  ],
};

function* leaves(value: unknown, path = ''): Generator<[path: string, value: unknown]> {
  if (Array.isArray(value)) for (const each of value) yield* leaves(each, `${path}[]`);
  else if (value !== null && typeof value === 'object')
    for (const [key, each] of Object.entries(value)) yield* leaves(each, path ? `${path}.${key}` : key);
  else yield [path, value];
}

/** Warns about every panel option that the drawing would ignore. */
export function checkHonoured(panel: Panel): void {
  const known = [...COMMON, ...(BY_TYPE[panel.type] ?? [])];
  const warnIgnored = (what: string) => warn(`${panel.title}: ${what} is ignored`);
  const { fieldConfig, ...rest } = panel;
  if (!BY_TYPE[panel.type]) warnIgnored(`panel type ${panel.type}`);
  for (const [path, value] of leaves(rest)) {
    if (!known.some(pattern => pattern.test(path))) warnIgnored(`${path} = ${value}`);
  }
  const { custom = {}, ...standard } = fieldConfig?.defaults ?? {};
  const ids = [
    ...Object.keys(standard),
    ...Object.keys(custom).map(name => `custom.${name}`),
    ...(fieldConfig?.overrides ?? []).flatMap(({ properties }) => properties.map(({ id }) => id)),
  ];
  for (const id of new Set(ids)) if (!isKnownProperty(panel.type, id)) warnIgnored(`fieldConfig ${id}`);
  const { options = {} } = panel;
  if (options.footer?.show) warnIgnored('options.footer.show');
  if (options.showPercentChange) warnIgnored('options.showPercentChange');
  if (panel.type === 'heatmap' && options.calculate) warnIgnored('options.calculate');
  if (panel.type === 'heatmap' && options.showValue === 'always') warnIgnored('options.showValue');
}
