import { describe, expect, it } from 'vitest';
import { AutoCancelView } from '../../../src/status/api/auto-cancel.ts';
import { autoCancelPage } from '../../../src/status/page/auto-cancel.ts';
import { distinct, foreignValues, unshownFacts } from '../../support/page-values.ts';
import { context, part, read, strange } from './context.ts';
import { autoCancel, hostileAutoCancel, off } from './fixtures/auto-cancel.ts';

const page = (view: AutoCancelView) => autoCancelPage(view, context).text;
const quiet: AutoCancelView = {
  ...autoCancel,
  accounts: autoCancel.accounts.map(each => ({ ...each, paused: null, breakers: [] })),
};

describe('auto-cancel page', () => {
  it.each(Object.entries({ autoCancel, off, hostileAutoCancel }))(
    'the auto-cancel page shows only values from the API: %s',
    (_, view) => {
      expect(AutoCancelView.parse(view)).toEqual(view);
      for (const each of [view, distinct(view)]) expect(foreignValues(page(each), each)).toEqual([]);
      expect(page(view)).not.toMatch(/undefined|NaN|\[object/);
    },
  );

  it('the auto-cancel page shows all numbers and times that the API returns', () => {
    const view = distinct(autoCancel);
    expect(unshownFacts(page(view), view)).toEqual(['now']);
  });

  it.each<[string, AutoCancelView]>([
    ['Off: rules are not evaluated, and nothing is cancelled', { ...quiet, mode: 'off' }],
    ['Plan mode: nothing is cancelled', { ...quiet, mode: 'plan' }],
    ['Plan mode: nothing is cancelled', { ...quiet, rules: quiet.rules.slice(1) }],
    ['Approval mode: nothing is cancelled without an operator', quiet],
    [
      'Cancels callbacks that rules find stuck',
      { ...quiet, rules: quiet.rules.map(rule => ({ ...rule, mode: 'enforce' })) },
    ],
    ['Stopped by the stop file: cancels are suspended', { ...quiet, stopFile: { path: 'STOP', present: true } }],
    [
      'Paused in 1 account: cancels are suspended there',
      { ...quiet, accounts: autoCancel.accounts.map(each => ({ ...each, breakers: [] })) },
    ],
    ['A breaker is open in 1 account: cancels are suspended there', autoCancel],
  ])('the auto-cancel page starts with the state: %s', (sentence, view) =>
    expect(read(page(view))).toContain(`Auto-cancel — ${sentence} `),
  );

  it('a candidate is shown with its verdict, why it is not cancelled, and the command that explains it', () => {
    const text = read(part(page(autoCancel), 'candidates'));
    expect(text).toContain('Tracked callbacks');
    expect(text).toContain('stuck production 1763640-c1 nightly-callbacks-idle approve');
    expect(text).toContain('It waits for the approval of an operator. awaiting_approval');
    expect(text).toContain('auto-cancel explain 1763640-c1 --account production --config FILE');
    expect(text).toContain('no rule production 1763641-c2 https://api.example.com/jobs/nightly');
  });

  it('a candidate after its first walk is shown with the singular', () => {
    const view = { ...autoCancel, candidates: autoCancel.candidates.map(each => ({ ...each, snapshots: 1 })) };
    expect(read(page(view))).toMatch(/in 1 complete walk (?!s)/);
  });

  it('the auto-cancel page shows who paused, when and why, and which breaker is open', () => {
    const text = read(part(page(autoCancel), 'brakes'));
    expect(text).toContain('paused by alice since 2026-11-19 10:15 UTC , 3 d ago : deploy');
    expect(text).toContain('candidates open since 15 min ago : 31 candidates: more than 25');
    expect(text).toContain('reset-breaker candidates');
    expect(text).toContain('candidates would open if a rule could cancel: 57 callbacks seem stuck, more than 25');
  });

  it('the auto-cancel page shows the commands that approve, pause and resume', () => {
    for (const command of ['approve 3b9d0c4e11aa22bb', 'pause --reason TEXT', 'resume --reason TEXT']) {
      expect(read(page(autoCancel))).toContain(`delivery-watch auto-cancel ${command} --config FILE`);
    }
  });

  it('external names are escaped', () => expect(strange(page(hostileAutoCancel))).toEqual([]));
});
