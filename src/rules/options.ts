import { z } from 'zod';
import { Duration, DurationOrZero } from '../kit/duration.ts';
import { textOf } from '../kit/record.ts';
import { LABEL_NAME } from '../kit/text.ts';
import { uniqueNames } from '../kit/unique-names.ts';
import { CHECK_KINDS, CHECK_SEVERITIES } from '../model/check-kind.ts';
import { labelValues, notifierOptions, silenceOptions } from '../notify/options.ts';

const selector = z.strictObject({
  metric: z.string().describe('Gauge or counter listed in docs/metrics.md.'),
  labels: z
    .record(z.string(), labelValues)
    .prefault({})
    .describe('Label values to match, for example of `account`. Labels that are not listed match any value.'),
});

export type Selector = z.output<typeof selector>;

const over = Duration.describe(
  'Length of the window. The condition is unknown until the agent has data for the complete window.',
);

const kinds = {
  above: selector.safeExtend({
    value: z.number().describe('The condition is true while the value is above this number.'),
  }),
  below: selector.safeExtend({
    value: z.number().describe('The condition is true while the value is below this number.'),
  }),
  growth: selector
    .safeExtend({
      over,
      atLeast: z.number().positive().describe('Minimum increase of the value since the start of the window.'),
    })
    .describe('Growth of a value within a window.'),
  age: selector
    .safeExtend({ above: Duration.describe('The condition is true while the timestamp is older than this.') })
    .describe('Age of a timestamp. The metric’s name must end in `_timestamp_seconds`.'),
  ratio: z
    .strictObject({
      part: selector.describe('Counter for the numerator. All its series of an account are summed.'),
      whole: selector.describe('Counter for the denominator. All its series of an account are summed.'),
      over,
      above: z.number().min(0).describe('The condition is true while the ratio is above this number: 0.05 is 5 %.'),
      atLeast: z
        .number()
        .positive()
        .default(1)
        .describe('Minimum increase of `whole`. If the increase is smaller, the condition is false.'),
    })
    .describe('Ratio of the increases of two counters within a window.'),
  stale: z
    .strictObject({
      collector: z.string().describe('Value of the label `collector`, such as `dlq`.'),
      round: z.string().optional().describe('Value of the label `round`. Default: any round.'),
    })
    .describe('The condition is true while the data of a collector is stale.'),
};

type Kind = keyof typeof kinds;

export type AlertCondition = { [K in Kind]: { readonly kind: K } & z.output<(typeof kinds)[K]> }[Kind];

export const alertCondition = z
  .strictObject(kinds)
  .partial()
  .transform((given, context): AlertCondition => {
    const [one, another] = Object.entries(given).filter(([, value]) => value !== undefined);
    if (one && !another) return { kind: one[0], ...one[1] } as AlertCondition;
    context.addIssue({ code: 'custom', message: `must have exactly one of ${Object.keys(kinds).join(', ')}` });
    return z.NEVER;
  });

/** Metric that reports for each round whether its data is stale. */
const DATA_STALE = 'delivery_collector_data_stale';

export function selectorOf(condition: Exclude<AlertCondition, { kind: 'ratio' }>): Selector {
  if (condition.kind !== 'stale') return condition;
  const { collector, round } = condition;
  const ofRound: Selector['labels'] = round === undefined ? {} : { round: [round] };
  return { metric: DATA_STALE, labels: { collector: [collector], ...ofRound } };
}

export function selectorsOf(condition: AlertCondition): readonly Selector[] {
  return condition.kind === 'ratio' ? [condition.part, condition.whole] : [selectorOf(condition)];
}

/** Whether a condition applies to an account. Without an `account` label, it applies to all accounts. */
export const isAbout = (condition: AlertCondition, account: string): boolean =>
  selectorsOf(condition).every(({ labels }) => labels.account?.includes(account) ?? true);

/** Whether a positive result holds regardless of unreadable rows: they can only increase the value or age. */
export const isCertain = ({ kind }: AlertCondition) => kind === 'above' || kind === 'age';

const RESERVED_LABELS = ['alertname', 'account'];
const PLACEHOLDER = /\{\{\s*\$(?:value|labels\.([a-zA-Z_][a-zA-Z0-9_]*))\s*\}\}/g;

const name = z.string().regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, {
  error: 'must be a letter or _, followed by up to 127 letters, digits or _',
});

export const alertRule = z.strictObject({
  name: name.describe('Unique name, used as the label `alertname`.'),
  for: DurationOrZero.prefault('0s').describe(
    'How long the condition must be true before the alert fires. With `0s`, the alert fires immediately.',
  ),
  keepFiringFor: DurationOrZero.prefault('0s').describe(
    'How long the alert keeps firing after its condition has become false.',
  ),
  labels: z
    .record(
      z.string().refine(label => LABEL_NAME.test(label) && !RESERVED_LABELS.includes(label), {
        error: `must be a label name other than ${RESERVED_LABELS.join(', ')}`,
      }),
      z.string().refine(text => text !== '' && !text.includes('{{'), { error: 'must be text, without {{' }),
    )
    .default({})
    .describe('Labels to add, such as `{ severity: warning }`.'),
  annotations: z
    .record(
      z.string().regex(LABEL_NAME, { error: 'must be a label name' }),
      z.string().refine(text => !text.replaceAll(PLACEHOLDER, '').includes('{{'), {
        error: 'may contain {{ $value }} and {{ $labels.NAME }}, but no other {{',
      }),
    )
    .default({})
    .describe('Annotations, such as `summary`. They may contain `{{ $value }}` and `{{ $labels.NAME }}`.'),
  when: alertCondition.describe('The condition, with exactly one of the following keys.'),
});

/** Times: milliseconds. */
export type AlertRule = z.output<typeof alertRule>;

export function expand(text: string, labels: Readonly<Record<string, string>>, value: number): string {
  return text.replaceAll(PLACEHOLDER, (_whole, label?: string) =>
    label === undefined ? String(value) : textOf(labels, label),
  );
}

const builtinOptions = z
  .strictObject({
    severity: z.enum(CHECK_SEVERITIES).default('warning').describe('Lowest severity of built-in alerts that are sent.'),
    disable: z
      .array(z.enum(CHECK_KINDS))
      .default([])
      .describe('Kinds of problems that are not sent: see docs/alerts.md#catalogue.'),
    enable: z
      .array(z.enum(CHECK_KINDS))
      .default([])
      .describe('Kinds of problems that are sent although they are off by default or below `severity`.'),
  })
  .superRefine(({ disable, enable }, context) => {
    for (const [index, kind] of enable.entries()) {
      if (!disable.includes(kind)) continue;
      context.addIssue({ code: 'custom', path: ['enable', index], message: `${kind} is also in disable` });
    }
  })
  .nullable()
  .prefault({});
export type BuiltinOptions = z.output<typeof builtinOptions>;

export const alertsOptions = z.strictObject({
  enabled: z
    .boolean()
    .default(false)
    .describe('Whether the agent sends built-in alerts and the alerts of your `rules`.'),
  builtin: builtinOptions.describe(
    'Built-in alerts for the problems on the status page. `null` turns off all of them.',
  ),
  evaluateEvery: Duration.prefault('15s').describe('Interval between evaluations.'),
  rules: z
    .array(alertRule)
    .superRefine(uniqueNames)
    .default([])
    .describe('Your own alerts, evaluated for each account.'),
  silences: z
    .array(silenceOptions)
    .max(1000)
    .default([])
    .describe('Alerts that are evaluated and shown, but not sent.'),
  notifiers: z.array(notifierOptions).superRefine(uniqueNames).default([]).describe('Receivers of alerts.'),
});

/** Times: milliseconds. */
export type AlertsOptions = z.output<typeof alertsOptions>;
