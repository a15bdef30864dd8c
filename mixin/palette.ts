import {
  type DynamicConfigValue,
  FieldColorModeId,
  MappingType,
  ThresholdsConfigBuilder,
  ThresholdsMode,
  type ValueMapping,
} from '@grafana/grafana-foundation-sdk/dashboard';
import type { Placeholder } from './placeholder.ts';

/** Colours, consistent across dashboards. They are names of Grafana's palette, which has a shade of each colour for each theme. */

/** Colours of label values. Grafana assigns colours to other values. */
const OF_LABEL: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  outcome: {
    delivered: 'green',
    failed: 'red',
    cancelled: 'gray',
    // Requests to the service.
    ok: 'green',
    not_found: 'light-blue',
    rate_limited: 'orange',
    timeout: 'dark-orange',
    network: 'yellow',
    server: 'red',
    unauthorized: 'purple',
    forbidden: 'dark-purple',
    invalid_response: 'light-red',
    refused: 'semi-dark-red',
    bug: 'dark-red',
    // Cancels and notifications.
    planned: 'blue',
    confirmed: 'green',
    accepted_unverified: 'light-green',
    superseded: 'light-blue',
    gone: 'gray',
    expired: 'light-orange',
    not_in_progress: 'yellow',
    rejected: 'red',
    gave_up: 'dark-red',
    unknown_final: 'purple',
    sent: 'green',
    dropped: 'dark-red',
  },
  state: {
    in_progress: 'orange',
    success: 'green',
    fail: 'red',
    canceled: 'gray',
    unknown: 'purple',
  },
  result: { success: 'green', error: 'red' },
  status_class: { '2xx': 'green', '3xx': 'light-blue', '4xx': 'orange', '5xx': 'red', none: 'purple' },
  // These values are patterns. The last one that matches applies.
  response_status: {
    '2..': 'green',
    '3..': 'light-blue',
    '4..': 'light-orange',
    '5..': 'light-red',
    '(0)': 'purple',
    '(400)': 'super-light-orange',
    '(401|403)': 'dark-orange',
    '(404)': 'yellow',
    '(429)': 'orange',
    '(500)': 'red',
    '(502)': 'semi-dark-red',
    '(503)': 'dark-red',
    '(504)': 'super-light-red',
    __none__: 'gray',
    __other__: 'light-purple',
  },
};

/** Colours of fixed legends. */
const OF_LINE: Readonly<Record<string, string>> = {
  entered: 'red',
  'retried or removed': 'blue',
  expired: 'orange',
  'left, reason unknown': 'purple',
  p50: 'light-blue',
  p95: 'orange',
  'unreadable rows': 'orange',
  'responses without a list': 'red',
  'gaps in the event log': 'dark-red',
  'late events': 'yellow',
  'events listed twice': 'light-blue',
  'untracked messages': 'purple',
  'dead letters found late': 'light-orange',
};

const fixed = (color: string): DynamicConfigValue[] => [
  { id: 'color', value: { mode: FieldColorModeId.Fixed, fixedColor: color } },
];

const ofSeries = (name: string, properties: DynamicConfigValue[]) => ({
  matcher: { id: 'byRegexp', options: `/^${name}$/` },
  properties,
});

/** Returns the colours of series whose legend is fixed, such as `entered`, or the value of a label, such as `{{outcome}}`. */
export function colourOverrides(legends: readonly string[]) {
  const labels = legends.flatMap(legend => /^\{\{(\w+)\}\}$/.exec(legend)?.[1] ?? []);
  const values = labels.flatMap(label => Object.entries(OF_LABEL[label] ?? {}));
  const lines = Object.entries(OF_LINE).filter(([line]) => legends.includes(line));
  return [...values, ...lines].map(([name, color]) => ofSeries(name, fixed(color)));
}

/** Returns overrides that draw limits as thin dashed lines. */
export const limitOverrides = (limits: readonly { readonly legend: string; readonly colour: string }[]) =>
  limits.map(({ legend, colour }) =>
    ofSeries(legend, [
      ...fixed(colour),
      { id: 'custom.lineStyle', value: { fill: 'dash', dash: [8, 8] } },
      { id: 'custom.lineWidth', value: 1 },
    ]),
  );

/** Texts and colours of numeric states. */
export type Words = Readonly<Record<number, readonly [text: string, color: string]>>;

/** For gauges that are 1 after a success. */
export const SUCCEEDED: Words = { 0: ['failed', 'red'], 1: ['ok', 'green'] };
/** For gauges that are 1 in case of a problem. */
export const READABLE: Words = { 0: ['readable', 'green'], 1: ['blind', 'red'] };

export const SEVERITY: Words = { 1: ['info', 'blue'], 2: ['warning', 'orange'], 3: ['critical', 'red'] };

const valuesToText = (options: Readonly<Record<string, { text: string; color?: string }>>): ValueMapping[] => [
  {
    type: MappingType.ValueToText,
    options: Object.fromEntries(Object.entries(options).map(([value, result], index) => [value, { ...result, index }])),
  },
];

export const mappingsOf = (words: Words) =>
  valuesToText(Object.fromEntries(Object.entries(words).map(([value, [text, color]]) => [value, { text, color }])));

/** Returns mappings of label values to texts. */
export const textMappingsOf = (texts: Readonly<Record<string, string>>) =>
  valuesToText(Object.fromEntries(Object.entries(texts).map(([value, text]) => [value, { text }])));

/**
 * Limits at which a number turns orange or red. If `warning` is the higher one, low numbers are bad. `calm`: colour of good
 * numbers.
 */
export interface Thresholds {
  readonly warning: number | Placeholder;
  readonly critical: number | Placeholder;
  readonly calm?: string;
}

export function stepsOf({ warning, critical, calm = 'green' }: Thresholds) {
  // Placeholders stand for objectives, which are upper limits.
  const isUpsideDown = typeof warning === 'number' && typeof critical === 'number' && warning > critical;
  const colours = isUpsideDown ? ['red', 'orange', calm] : [calm, 'orange', 'red'];
  const bounds = isUpsideDown ? [critical, warning] : [warning, critical];
  // Placeholders are replaced by numbers when the template is filled.
  const valueAt = (index: number) => (index === 0 ? null : (bounds[index - 1] as number));
  const steps = colours.map((color, index) => ({ color, value: valueAt(index) }));
  // If both limits are equal, only the second one applies.
  return new ThresholdsConfigBuilder()
    .mode(ThresholdsMode.Absolute)
    .steps(steps.filter(({ value }, index) => index !== 1 || value !== bounds[1]));
}
