import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { testRules } from '../../src/cli/offline-rules.ts';
import { loadConfig } from '../../src/config/load.ts';
import { readRuleCase } from '../../src/config/rule-cases.ts';
import { afterThisTest } from '../support/client.ts';

function write(text: string): string {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-rules-'));
  afterThisTest(async () => rmSync(folder, { recursive: true }));
  const file = join(folder, 'case.yaml');
  writeFileSync(file, text);
  return file;
}

/** Returns a rule case with one entry, listed every 5 minutes for 60 hours. `rule`: more keys of the rule. `more` is appended. */
const one = (more: string, rule = '') => `
autoCancel:
  rules: [{ name: r, match: { label: { in: [x] } }${rule} }]
snapshots:
  - { at: +0h, every: 5m, until: +60h, dlq: [{ dlqId: 1-0, messageId: m1, label: x, failureFunctionState: CALLBACK_INPROGRESS }] }
${more}`;
const expected = (...lines: string[]) => `expect:\n${lines.map(line => `  - ${line}\n`).join('')}`;

const found = (text: string) =>
  testRules(readRuleCase(write(text)), undefined).map(
    ({ verdict, finding, isAsExpected }) => `${isAsExpected ? 'ok' : 'wrong'}: ${verdict} ${finding?.reason}`,
  );

const faultOf = (text: string) => {
  const file = write(text);
  try {
    testRules(readRuleCase(file), undefined);
  } catch (error) {
    return (error as Error).message.replaceAll(file, 'case.yaml');
  }
  throw new Error('the case was accepted, but must have an error');
};

describe('examples', () => {
  const { config } = loadConfig('examples/auto-cancel.yaml');
  const checks = globSync('examples/rules/*.yaml')
    .sort()
    .map(file => ({ file, checks: testRules(readRuleCase(file), config) }));

  it.each(checks)('the example $file passes', ({ checks }) => {
    expect(checks.filter(({ isAsExpected }) => !isAsExpected)).toEqual([]);
    expect(checks.length).toBeGreaterThan(2);
  });

  it.each(checks)('the example $file fails if any of its verdicts is changed', ({ file }) => {
    const ruleCase = readRuleCase(file);
    for (const [index, { verdict }] of ruleCase.expect.entries()) {
      const changed = verdict === 'stuck' ? ('not_stuck' as const) : ('stuck' as const);
      const expected = ruleCase.expect.map((each, at) => (at === index ? { ...each, verdict: changed } : each));
      const wrong = testRules({ ...ruleCase, expect: expected }, config).flatMap(({ isAsExpected }, at) =>
        isAsExpected ? [] : [at],
      );
      expect(wrong).toEqual([index]);
    }
  });

  it('the case in docs/auto-cancel.md passes', () => {
    const [, text = ''] = /```yaml\n(.*?)```/s.exec(readFileSync('docs/auto-cancel.md', 'utf8')) ?? [];
    expect(found(text)).toEqual(['ok: not_stuck in_progress_for', 'ok: stuck stuck']);
  });

  it('the examples cover both results of each predicate', () => {
    const findings = Map.groupBy(
      checks.flatMap(({ checks }) => checks.flatMap(({ finding }) => finding ?? [])),
      ({ rule }) => rule,
    );
    expect(findings.size).toBe(config.autoCancel.rules.length);
    // Always true, because a longer gap starts another episode.
    const always = ['stuckWhen.maxGap'];
    for (const [, ofRule] of findings) {
      const predicates = Map.groupBy(
        ofRule.flatMap(finding => finding.predicates),
        ({ name }) => name,
      );
      for (const [name, results] of predicates) {
        const seen = new Set(results.map(({ holds }) => holds));
        expect([name, seen.has(true)]).toEqual([name, true]);
        if (!always.includes(name)) expect([name, seen.size > 1 || name === 'id']).toEqual([name, true]);
      }
    }
  });
});

describe('rule cases', () => {
  it('a case evaluates each expectation at its own time, regardless of the order in which expectations are listed', () => {
    const at = (time: string, verdict: string, reason?: string) =>
      `{ at: ${time}, dlqId: 1-0, rule: r, verdict: ${verdict}${reason ? `, reason: ${reason}` : ''} }`;
    const lines = [
      at('+50h', 'stuck'),
      at('+1h', 'stuck'),
      at('+1h', 'not_stuck', 'past_retry_window'),
      at("'2027-01-01T01:00:00Z'", 'not_stuck', 'in_progress_for'),
      '{ at: +1h, dlqId: 2-0, rule: r, verdict: not_listed }',
      '{ at: +1h, dlqId: 2-0, rule: r, verdict: no_match }',
    ];
    expect(found(one(expected(...lines)))).toEqual([
      'ok: stuck stuck',
      'wrong: not_stuck in_progress_for',
      'wrong: not_stuck in_progress_for',
      'ok: not_stuck in_progress_for',
      'ok: not_listed undefined',
      'wrong: not_listed undefined',
    ]);
  });

  it('a case considers an event of the entry or its callback only after the event has happened', () => {
    const idle = ', stuckWhen: { idleFor: 1h }';
    const stuck = (at: string) => expected(`{ at: ${at}, dlqId: 1-0, rule: r, verdict: stuck }`);
    expect(found(one(stuck('+50h'), idle))).toEqual(['wrong: unknown unknown_idle_for']);
    const event = (at: string, id = 'm1') => `events: [{ messageId: ${id}, at: ${at} }]\n`;
    expect(found(one(event('+1h') + stuck('+50h'), idle))).toEqual(['ok: stuck stuck']);
    expect(found(one(event('+1h', 'm2') + stuck('+50h'), idle))).toEqual(['wrong: unknown unknown_idle_for']);
    expect(found(one(event('+51h') + stuck('+50h'), idle))).toEqual(['wrong: unknown unknown_idle_for']);
    expect(found(one(event('+51h') + stuck('+51h'), idle))).toEqual(['wrong: not_stuck idle_for']);
    const callback = one(event('+51h', 'm9') + stuck('+51h'), idle).replace(
      'failureFunctionState: CALLBACK_INPROGRESS',
      'failureCallbackInfo: { state: CALLBACK_INPROGRESS, messageId: m9 }',
    );
    expect(found(callback)).toEqual(['wrong: not_stuck idle_for']);
  });

  it('a case uses the id field configured in autoCancel.idFrom', () => {
    const stuck = expected('{ at: +50h, dlqId: m1, rule: r, verdict: stuck }');
    const text = one(stuck).replace('dlqId: 1-0, messageId', 'messageId');
    expect(found(text)).toEqual(['wrong: unknown no_id']);
    expect(found(text.replace('autoCancel:', 'autoCancel:\n  idFrom: messageId'))).toEqual(['ok: stuck stuck']);
  });

  it('a case starts another episode after a gap longer than the maximum, which depends on rescanEvery', () => {
    const stuck = expected('{ at: +59h, dlqId: 1-0, rule: r, verdict: stuck }');
    const slow = (every: string, more = '') => one(stuck).replace('every: 5m', `every: ${every}`) + more;
    expect(found(slow('30m'))).toEqual(['ok: stuck stuck']);
    expect(found(slow('31m'))).toEqual(['wrong: not_stuck in_progress_for']);
    expect(found(slow('31m', 'rescanEvery: 15m'))).toEqual(['ok: stuck stuck']);
    expect(
      found(slow('30m').replace('label: { in', 'label: { in').replace('} } }]', '} }, stuckWhen: { maxGap: 29m } }]')),
    ).toEqual(['wrong: not_stuck in_progress_for']);
  });

  it.each<[string, string]>([
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: q, verdict: stuck }')),
      'case.yaml:7:34: expect[0].rule: there is no rule q; available: r',
    ],
    [
      one(expected('{ at: soon, dlqId: 1-0, rule: r, verdict: stuck }')),
      "case.yaml:7:11: expect[0].at: must be a time after the start such as '+49h', or '2027-01-01T00:00:00Z'",
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: maybe }')),
      'case.yaml:7:46: expect[0].verdict: must be one of stuck, not_stuck, unknown, no_match, not_listed',
    ],
    [one('expect: []'), 'case.yaml:6:9: expect: must not be empty'],
    [one(''), 'case.yaml:2:1: expect: is required: must be a list'],
    [
      one('expects: []\nexpect: [{ at: +1h, dlqId: a, rule: r, verdict: stuck }]'),
      'case.yaml:6:1: expects: unknown key; allowed here: autoCancel, account, start, rescanEvery, snapshots, events, expect',
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: stuck }')).replace('+60h', '+9000h').replace('5m', '1s'),
      'case.yaml:5:5: snapshots[0]: is more than 100000 walks',
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: stuck }')).replace('until: +60h', 'until: +0h'),
      'case.yaml:5:34: snapshots[0].until: must be after at',
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: stuck }')).replace(', until: +60h', ''),
      'case.yaml:5:5: snapshots[0]: must have both every and until, or neither',
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: stuck }')).replace('dlqId: 1-0, messageId: m1, ', ''),
      'case.yaml:5:46: snapshots[0].dlq[0]: must have a dlqId or a messageId',
    ],
    [
      one(expected('{ at: +1h, dlqId: 1-0, rule: r, verdict: stuck }')).replace(
        'snapshots:',
        'snapshots:\n  - { at: +10h, dlq: [] }',
      ),
      'case.yaml:5:5: snapshots[0]: two walks are at 2027-01-01T10:00:00.000Z; until is exclusive',
    ],
    [
      'snapshots: [{ at: +0h, dlq: [] }]\nexpect: [{ at: +1h, dlqId: a, rule: r, verdict: stuck }]',
      'case.yaml:1:1: there is no rule to test: add autoCancel.rules here, or use --config',
    ],
    ['a: [', expect.stringMatching(/^case\.yaml:1:\d: a { or \[ opened above is not closed/) as unknown as string],
  ])('an invalid case is rejected with the position of the error: %#', (text, message) =>
    expect(faultOf(text)).toEqual(message),
  );
});
