import { describe, expect, it } from 'vitest';
import { needsOf, publicPlans } from '../../src/cli/plan.ts';
import { parseConfig } from '../../src/config/load.ts';
import { DAY, MINUTE } from '../../src/kit/duration.ts';
import { PUBLIC_PLANS } from '../../src/upstream/options.ts';

const loaded = (more = '') =>
  parseConfig(`accounts: [{ name: a, baseUrl: "https://a.example.com", token: { env: TOKEN } }]\n${more}`, 'c.yaml', {
    TOKEN: 'canary',
  }).config;

function needsIn(more = '', facts = {}) {
  const config = loaded(more);
  const [account] = config.accounts;
  if (!account) throw new Error('no account');
  return needsOf(account, config, facts);
}

const RULE = '{ name: r, match: { label: { in: [x] } }, stuckWhen: { inProgressFor: 48h, snapshots: 8, idleFor: 4d } }';

describe('needs of an account', () => {
  it('by default, needsOf requires the retention times objectives.dlqMaxAge and lateSweep, and returns undefined for unread data', () => {
    expect(needsIn()).toEqual({ dlq: DAY, events: 30 * MINUTE });
  });

  it('needsOf requires the retention that auto-cancel rules need if it exceeds the default', () => {
    expect(needsIn(`autoCancel: { mode: plan, rules: [${RULE}] }`)).toEqual({ dlq: 2 * DAY, events: 4 * DAY });
  });

  it('needsOf includes queues and schedules beyond the cap, and returns the highest parallelism limit of all keys', () => {
    const facts = {
      flow_control: { now: { shown: [{ parallelismLimit: 20 }, { parallelismLimit: 3 }, {}] } },
      queues: { now: { shown: [{}, {}], beyondCap: 9 } },
      schedules: { now: { listed: [{}], beyondCap: 0 } },
    };
    expect(needsIn('', facts)).toMatchObject({ global_parallelism: 20, queues: 11, schedules: 1 });
  });
});

describe('comparison with public plans', () => {
  it('publicPlans marks each limit that is lower than needed', () => {
    const needs = { dlq: 10 * DAY, events: 30 * MINUTE, global_parallelism: 100, queues: 11, schedules: undefined };
    expect(publicPlans(needs, 1000.5).split('\n').slice(1)).toEqual([
      'limit                       needed             free  pay as you go   fixed 1M   fixed 10M',
      'messages a day         1,001 calls  1,000 (too low)      unlimited  1,000,000  10,000,000',
      'dead letters kept for          10d     3d (too low)   7d (too low)        30d         90d',
      'events kept for                30m               3d             7d        14d         14d',
      'parallelism                    100     10 (too low)            100        200       1,000',
      'queues                          11     10 (too low)            100      1,000       1,000',
      'schedules                  unknown               10          1,000     10,000      50,000',
    ]);
  });

  it('a public plan never has a lower limit than a cheaper one', () => {
    const plans = Object.values(PUBLIC_PLANS);
    for (const [index, { limits, retention }] of plans.entries()) {
      const cheaper = plans.slice(0, index);
      for (const each of cheaper) {
        expect(retention.dlq).toBeGreaterThan(each.retention.dlq);
        expect(retention.events).toBeGreaterThanOrEqual(each.retention.events);
        expect(limits.global_parallelism).toBeGreaterThan(each.limits.global_parallelism ?? 0);
      }
    }
  });
});
