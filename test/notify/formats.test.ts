import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import type { Notice } from '../../src/notify/notice.ts';
import { FORMATS, type WebhookFormat } from '../../src/notify/notifiers/formats.ts';
import type { Notification } from '../../src/notify/notifiers/receiver.ts';
import { templateError } from '../../src/notify/notifiers/template.ts';
import { runs } from '../support/runs.ts';

const START = Date.UTC(2026, 5, 1, 12);
const labels = { alertname: 'DlqGrowing', account: 'production', severity: 'warning' };
const firing: Notice = { status: 'firing', labels, annotations: { summary: 'It grows.' }, startsAt: START };

const notificationOf = (notices: readonly Notice[], more: Partial<Notification> = {}): Notification => ({
  notices,
  group: { labels: { alertname: 'DlqGrowing', account: 'production' }, key: 'k', left: 0 },
  externalUrl: 'https://dw.example/',
  notifier: 'n',
  secret: undefined,
  template: '',
  ...more,
});
const bodyOf = (format: WebhookFormat, ...args: Parameters<typeof notificationOf>) =>
  FORMATS[format].bodyOf(notificationOf(...args));

const url = z.url({ protocol: /^https?$/ });
const shown = (max: number) => z.string().min(1).max(max);

const textRun = z.strictObject({
  type: z.literal('TextRun'),
  text: shown(1000),
  color: z.enum(['default', 'good', 'accent', 'warning', 'attention']).optional(),
  weight: z.literal('bolder').optional(),
  size: z.literal('medium').optional(),
  isSubtle: z.boolean().optional(),
});
/** Adaptive Card 1.4 in the message that a workflow with the trigger “When a Teams webhook request is received” expects. */
const teamsMessage = z.strictObject({
  type: z.literal('message'),
  attachments: z.tuple([
    z.strictObject({
      contentType: z.literal('application/vnd.microsoft.card.adaptive'),
      content: z.strictObject({
        $schema: z.literal('http://adaptivecards.io/schemas/adaptive-card.json'),
        type: z.literal('AdaptiveCard'),
        version: z.literal('1.4'),
        msteams: z.strictObject({ width: z.literal('Full') }),
        fallbackText: shown(1000),
        body: z.array(z.strictObject({ type: z.literal('RichTextBlock'), inlines: z.tuple([textRun]) })).min(1),
        actions: z.array(z.strictObject({ type: z.literal('Action.OpenUrl'), title: shown(100), url })).max(6),
      }),
    }),
  ]),
});
/** Documented maximum size of a message for Teams (bytes). */
const TEAMS_BYTES = 28 * 1024;

/** The used part of the documented schema of Discord's “execute webhook”. */
const discordMessage = z
  .strictObject({
    content: shown(2000),
    embeds: z
      .array(
        z.strictObject({
          title: shown(256),
          description: shown(4096),
          timestamp: z.iso.datetime(),
          color: z.int().min(0).max(0xffffff),
        }),
      )
      .min(1)
      .max(10),
    allowed_mentions: z.strictObject({ parse: z.tuple([]) }),
  })
  .refine(({ embeds }) => embeds.map(({ title, description }) => title + description).join('').length <= 6000);

const SCHEMAS = {
  teams: z
    .string()
    .refine(text => Buffer.byteLength(text) <= TEAMS_BYTES)
    .transform(text => JSON.parse(text))
    .pipe(teamsMessage),
  discord: z
    .string()
    .transform(text => JSON.parse(text))
    .pipe(discordMessage),
} as const;

const hostile = fc.oneof(
  fc.constantFrom('@everyone', '<@&1>', '[x](https://evil.example)', '**b**', '\n# h', '"}', '{{ title }}', '\u202e'),
  fc.string({ unit: 'binary', minLength: 1, maxLength: 5000 }),
  fc.constant('😀'.repeat(3000)),
  fc.constant('*'.repeat(6000)),
);
const link = fc.oneof(hostile, fc.constant(`https://runbooks.example/${'x'.repeat(3000)}`), fc.webUrl());
const anyNotice = fc
  .record({
    status: fc.constantFrom('firing', 'resolved'),
    x: hostile,
    severity: fc.oneof(hostile, fc.constantFrom('critical', 'warning', 'info')),
    alertname: hostile,
    annotations: fc.record({ summary: hostile, description: hostile, runbook_url: link, dashboard_url: link }),
  })
  .map(
    ({ status, annotations, ...own }): Notice => ({ status, labels: own, annotations, startsAt: START, endsAt: START }),
  );

describe.each(['teams', 'discord'] as const)('the format %s', format => {
  it('a message conforms to the documented schema and limits for any labels and annotations', () => {
    fc.assert(
      fc.property(
        fc.array(anyNotice, { minLength: 1, maxLength: FORMATS[format].maxAlerts }),
        fc.dictionary(fc.constantFrom('a', 'b', 'alertname'), hostile),
        fc.nat(),
        (notices, groupLabels, left) => {
          const text = bodyOf(format, notices, { group: { labels: groupLabels, key: 'k', left } });
          expect(SCHEMAS[format].safeParse(text).error).toBeUndefined();
          expect(text.isWellFormed()).toBe(true);
        },
      ),
      { numRuns: runs(40) },
    );
  });

  it('a message contains title, summary, labels, links and the number of omitted alerts', () => {
    const annotations = { summary: 'It grows.', runbook_url: 'https://runbooks.example/x' };
    const group = { labels: { alertname: 'DlqGrowing' }, key: 'k', left: 3 };
    const text = bodyOf(format, [{ ...firing, annotations }], { group }).replaceAll('\\\\', '');
    for (const part of [
      '[FIRING 1] DlqGrowing',
      'It grows.',
      'account=',
      'https://runbooks.example/x',
      'https://dw.example/',
      '3 more alerts are not listed',
    ])
      expect(text).toContain(part);
  });

  it('the last text of a resolved alert is labelled as its last report', () => {
    expect(bodyOf(format, [{ ...firing, status: 'resolved', endsAt: START }])).toContain('Last report');
  });
});

it.each([
  ['constructor', 'warning'],
  ['__proto__', 'warning'],
  ['unknown', 'warning'],
  [undefined, 'warning'],
  ['error', 'critical'],
])('an alert with the severity %s has the colour of one with the severity %s', (severity, same) => {
  const { severity: _, ...others } = firing.labels as Record<string, string>;
  const coloursOf = (severity: string | undefined) => {
    const notices = [{ ...firing, labels: { ...others, ...(severity === undefined ? {} : { severity }) } }];
    return [
      discordMessage.parse(JSON.parse(bodyOf('discord', notices))).embeds[0]?.color,
      /"color":"(#\w+)"/.exec(bodyOf('slack', notices))?.[1],
      /"color":"(\w+)"/.exec(bodyOf('teams', notices))?.[1],
    ];
  };
  expect(coloursOf(severity)).toEqual(coloursOf(same));
  const all = ['critical', 'warning', 'info'].flatMap(coloursOf);
  expect(new Set(all).size).toBe(9);
  expect(all).not.toContain(undefined);
});

it('a Discord message contains no mention, link or formatting from labels', () => {
  const text = bodyOf('discord', [
    { ...firing, annotations: { summary: '@everyone [x](https://evil.example) **b** `c`' } },
  ]);
  const [{ description = '' } = {}] = discordMessage.parse(JSON.parse(text)).embeds;
  expect(description.split('\n')[0]).toBe('\\@everyone \\[x\\]\\(https\\://evil.example\\) \\*\\*b\\*\\* \\`c\\`');
});

describe('the format template', () => {
  const template = '{"a": "{{ title }}", "b": "{{text}}", "c": "{{ status }} {{ severity }} {{ url }}"}';

  it('a body contains the values of its placeholders', () => {
    const critical = { ...firing, status: 'resolved', labels: { ...labels, severity: 'critical' } } as const;
    expect(JSON.parse(bodyOf('template', [critical, firing], { template }))).toEqual({
      a: '[FIRING 1, RESOLVED 1] DlqGrowing account="production"',
      b: 'FIRING DlqGrowing: It grows.\nRESOLVED DlqGrowing: Last report: It grows.',
      c: 'firing critical https://dw.example/',
    });
  });

  it('a body stays valid JSON for any labels and annotations, and placeholders in them are not replaced', () => {
    fc.assert(
      fc.property(fc.array(anyNotice, { minLength: 1, maxLength: 5 }), notices => {
        const { b } = JSON.parse(bodyOf('template', notices, { template }));
        expect(b.split('\n')).toHaveLength(notices.length);
      }),
      { numRuns: runs(40) },
    );
    const text = bodyOf('template', [{ ...firing, annotations: { summary: '{{ url }}' } }], { template });
    expect(JSON.parse(text).b).toContain('{{ url }}');
  });

  it.each([
    ['{"a": "{{ title }}"}', true, undefined],
    ['{{ title }}: {{text}}', false, undefined],
    ['{{ title }}: x', true, 'must be JSON'],
    ['{"a": "{{ name }}"}', true, 'but not {{ name }}'],
  ])('the template %s (JSON: %s) has the error %s', (body, isJson, error) => {
    const found = templateError(body, isJson);
    expect(error === undefined ? found : found?.includes(error)).toBe(error === undefined ? undefined : true);
  });
});
