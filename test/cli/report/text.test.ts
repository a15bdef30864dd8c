import { describe, expect, it } from 'vitest';
import { markdownReport, textReport } from '../../../src/cli/report.ts';
import type { Report } from '../../../src/status/api/report.ts';

const REPORT: Report = {
  now: '2026-01-01T12:00:00.000Z',
  version: '1.2.3',
  externalUrl: 'https://dw.example.com/',
  verdict: 'problems',
  agent: { verdict: 'healthy', problems: [] },
  accounts: [
    {
      account: 'production',
      verdict: 'problems',
      problems: [
        {
          account: 'production',
          kind: 'dlq_growing',
          severity: 'critical',
          subject: null,
          since: '2026-01-01T11:55:00.000Z',
          text: '179 dead letters entered in 3 min; largest kind in the queue: status 489 from app.example.com/api/onboarding (86 of 881).',
          runbook: 'DeliveryDlqGrowing',
        },
      ],
      unknown: [],
      dataAt: '2026-01-01T11:59:50.000Z',
      deadLetters: 881,
    },
    {
      account: 'staging',
      verdict: 'unknown',
      problems: [],
      unknown: [
        {
          collector: 'events',
          data: 'stale',
          dataAt: '2026-01-01T11:00:00.000Z',
          failure: 'GET /v2/events: status 503',
          retryAt: '2026-01-01T12:00:12.000Z',
        },
      ],
      dataAt: null,
      deadLetters: null,
    },
  ],
};

describe('a report as text', () => {
  it('a text report starts with the verdict and fits into 80 columns', () => {
    const text = textReport(REPORT);
    expect(text).toMatchInlineSnapshot(`
      "problems (2 accounts: 1 with problems, 1 unknown, 0 healthy)
      2026-01-01T12:00:00.000Z, delivery-watch 1.2.3

      production: problems
        881 dead letters; oldest data from 2026-01-01T11:59:50Z (10 s ago)
        critical, since 2026-01-01T11:55:00Z (5 min ago): 179 dead letters entered in
          3 min; largest kind in the queue: status 489 from
          app.example.com/api/onboarding (86 of 881).
          https://dw.example.com/runbooks/DeliveryDlqGrowing

      staging: unknown
        unknown: Events are stale, last complete read 2026-01-01T11:00:00Z (1 h ago):
          GET /v2/events: status 503; retried in 12 s
      "
    `);
    expect(Math.max(...text.split('\n').map(line => line.length))).toBeLessThanOrEqual(80);
  });

  it('a report names the runbook instead of linking to it if the agent has no external URL', () => {
    const text = textReport({ ...REPORT, externalUrl: null });
    expect(text).toContain('\n    runbook: DeliveryDlqGrowing\n');
    expect(markdownReport({ ...REPORT, externalUrl: null })).toContain(' (runbook: DeliveryDlqGrowing)\n');
  });

  it('a text report replaces control characters in untrusted text', () => {
    const [account] = REPORT.accounts;
    const [problem] = account?.problems ?? [];
    if (!account || !problem) throw new Error('no problem');
    const hostile = { ...account, problems: [{ ...problem, text: 'evil\u001b[2J\nhealthy (1 account)' }] };
    const text = textReport({ ...REPORT, accounts: [hostile] });
    expect(text).not.toContain('\u001b');
    expect(text).not.toMatch(/^healthy/m);
  });
});

describe('a report as Markdown', () => {
  it('a Markdown report contains a section for each account with links to runbooks', () => {
    expect(markdownReport(REPORT)).toMatchInlineSnapshot(`
      "## problems (2 accounts: 1 with problems, 1 unknown, 0 healthy)

      2026-01-01T12:00:00.000Z, delivery-watch 1.2.3

      ### production: problems

      - 881 dead letters; oldest data from 2026-01-01T11:59:50Z (10 s ago)
      - **critical**, since 2026-01-01T11:55:00Z (5 min ago): 179 dead letters entered in 3 min; largest kind in the queue: status 489 from app.example.com/api/onboarding (86 of 881). ([runbook](https://dw.example.com/runbooks/DeliveryDlqGrowing))

      ### staging: unknown

      - **unknown**: Events are stale, last complete read 2026-01-01T11:00:00Z (1 h ago): GET /v2/events: status 503; retried in 12 s
      "
    `);
  });

  it('a Markdown report escapes untrusted text, so that it cannot add links, mentions, headings or HTML', () => {
    const [account] = REPORT.accounts;
    const [problem] = account?.problems ?? [];
    if (!account || !problem) throw new Error('no problem');
    const text = 'from [x](https://evil.example) <img src=x> @channel **b** `c`\n# heading |';
    const markdown = markdownReport({ ...REPORT, accounts: [{ ...account, problems: [{ ...problem, text }] }] });
    expect(markdown).not.toMatch(/(?<!\\)\[x|(?<!\\)<img|@channel|(?<!\\)\*\*b|(?<!\\)`c|^# heading/m);
    expect(markdown).not.toContain('https://evil');
  });
});
