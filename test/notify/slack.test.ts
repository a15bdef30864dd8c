import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { Notice } from '../../src/notify/notice.ts';
import type { Group } from '../../src/notify/notifiers/receiver.ts';
import { slack } from '../../src/notify/notifiers/slack.ts';
import { runs } from '../support/runs.ts';

const START = Date.UTC(2026, 5, 1, 12);
const group = { labels: { alertname: 'DlqGrowing', account: 'production' }, key: 'k', left: 0 };

function notice(more: Partial<Notice> = {}): Notice {
  const labels = { alertname: 'DlqGrowing', account: 'production', severity: 'warning' };
  return { status: 'firing', labels, annotations: {}, startsAt: START, ...more };
}

interface Text {
  readonly type: string;
  readonly text: string;
}

interface Message {
  readonly text: string;
  readonly attachments: readonly {
    readonly color: string;
    readonly blocks: readonly ({ readonly text: Text } | { readonly elements: readonly Text[] })[];
  }[];
}

function messageOf(notices: readonly Notice[], group: Group, externalUrl: string): Message {
  const common = { notifier: 'n', secret: undefined, template: '' };
  return JSON.parse(slack.bodyOf({ ...common, notices, group, externalUrl }));
}

/** Returns all texts that Slack shows for a message. */
function textsOf(body: Message): readonly Text[] {
  const blocks = body.attachments.flatMap(({ blocks }) => blocks);
  return blocks.flatMap(block => ('text' in block ? [block.text] : block.elements));
}

describe('messages', () => {
  it('the last text of a resolved alert is labelled as its last report', () => {
    const resolved = notice({ status: 'resolved', annotations: { summary: 'It grows.' }, endsAt: START + 60_000 });
    const texts = textsOf(messageOf([resolved], group, '')).map(({ text }) => text);
    expect(texts).toContain('Last report: It grows.');
    expect(texts).not.toContain('It grows.');
  });

  it('a message has a summary line and, for each alert, its colour, summary, labels and links', () => {
    const annotations = { summary: 'It grows.', runbook_url: 'https://runbooks.example/x?a=1&b=2' };
    const resolved = notice({ status: 'resolved', labels: { alertname: 'DlqGrowing' }, endsAt: START + 60_000 });
    expect(messageOf([resolved, notice({ annotations })], group, 'https://dw.example/')).toEqual({
      text: '[FIRING 1, RESOLVED 1] DlqGrowing account="production": It grows.',
      mrkdwn: false,
      attachments: [
        {
          color: '#e8a33d',
          blocks: [
            {
              type: 'section',
              text: { type: 'plain_text', text: 'FIRING DlqGrowing since 2026-06-01T12:00:00.000Z', emoji: false },
            },
            { type: 'section', text: { type: 'plain_text', text: 'It grows.', emoji: false } },
            {
              type: 'context',
              elements: [
                { type: 'plain_text', text: 'account="production" severity="warning"', emoji: false },
                {
                  type: 'mrkdwn',
                  text: '<https://runbooks.example/x?a=1&amp;b=2|runbook> · <https://dw.example/|status page>',
                },
              ],
            },
          ],
        },
        {
          color: '#2eb67d',
          blocks: [
            {
              type: 'section',
              text: {
                type: 'plain_text',
                text: 'RESOLVED DlqGrowing since 2026-06-01T12:00:00.000Z until 2026-06-01T12:01:00.000Z',
                emoji: false,
              },
            },
            {
              type: 'context',
              elements: [
                { type: 'plain_text', text: '–', emoji: false },
                { type: 'mrkdwn', text: '<https://dw.example/|status page>' },
              ],
            },
          ],
        },
      ],
    });
  });

  it('a link to dead letters of one kind has the text "dead letters of this kind"', () => {
    const status_url = 'https://dw.example/accounts/production/dlq?kind=1f';
    const [context] = textsOf(messageOf([notice({ annotations: { status_url } })], group, '')).slice(-1);
    expect(context?.text).toBe(`<${status_url}|dead letters of this kind>`);
  });

  it.each([
    ['critical', '#d00000'],
    ['warning', '#e8a33d'],
    ['info', '#439fe0'],
    ['of unknown value', '#e8a33d'],
  ])('a message with the severity "%s" has the colour %s', (severity, color) => {
    expect(messageOf([notice({ labels: { severity } })], group, '').attachments[0]?.color).toBe(color);
  });

  it('a message lists firing alerts first and states the number of unlisted alerts', () => {
    const all = Array.from({ length: 15 }, (_, index) => notice({ status: index < 10 ? 'resolved' : 'firing' }));
    const body = messageOf(all, { ...group, left: 85 }, '');
    expect(body.text).toBe('[FIRING 5, RESOLVED 10] DlqGrowing account="production"');
    expect(body.attachments.slice(0, 5).every(({ color }) => color === '#e8a33d')).toBe(true);
    expect(textsOf(body).at(-1)?.text).toBe('85 more alerts are not listed.');
  });

  it('a message contains no mentions, links or formatting from labels and stays within the limits of Slack', () => {
    const hostile = fc.oneof(
      fc.constantFrom(
        '<!channel>',
        '<@U123>',
        '<https://evil.example|click>',
        '*b* _i_ ~s~ `c`',
        ':fire:',
        '\n> quoted',
      ),
      fc.string({ unit: 'binary', maxLength: 5000 }),
      fc.constant('&'.repeat(10_000)),
    );
    const annotations = fc.record({
      summary: hostile,
      description: hostile,
      runbook_url: hostile,
      dashboard_url: hostile,
    });
    const one = fc.record({
      x: hostile,
      severity: hostile,
      annotations,
      status: fc.constantFrom('firing', 'resolved'),
    });
    fc.assert(
      fc.property(fc.array(one, { minLength: 1, maxLength: slack.maxAlerts }), hostile, (given, groupLabel) => {
        const notices = given.map(({ x, severity, annotations, status }) =>
          notice({ labels: { alertname: 'A', x, severity }, annotations, status }),
        );
        const body = messageOf(notices, { labels: { x: groupLabel }, key: 'k', left: 3 }, 'https://dw.example/');
        const texts = textsOf(body);
        expect(body.attachments.flatMap(({ blocks }) => blocks).length).toBeLessThanOrEqual(50);
        expect(body.text.length).toBeLessThanOrEqual(3000);
        expect(body.text.replace(/&(amp|lt|gt);/g, '')).not.toMatch(/[<>&\n]/);
        for (const { type, text } of texts) {
          expect(text.length).toBeLessThanOrEqual(3000);
          expect(text.length).toBeGreaterThan(0);
          expect(text.isWellFormed()).toBe(true);
          // The only permitted markup: links from annotations, with fixed texts.
          const rest =
            type === 'mrkdwn' ? text.replace(/<https?:\/\/[^<>|\s]+\|(runbook|dashboard|status page)>/g, '') : text;
          expect(rest.replace(/&(amp|lt|gt);/g, '')).not.toMatch(/[<>&\n]/);
          if (type === 'mrkdwn') expect(rest).toMatch(/^[ ·]*$/);
        }
      }),
      { numRuns: runs(50) },
    );
  });
});

it.each([
  ['ok', false],
  ['{"ok":true}', false],
  ['{"ok":false,"error":"no_text"}', true],
  ['{"ok": false}', true],
])('whether the response %j of Slack is an error: %s', (text, isError) => expect(slack.isError?.(text)).toBe(isError));
