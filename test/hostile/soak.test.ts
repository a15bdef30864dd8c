import { describe, expect, it } from 'vitest';
import { parseExposition } from '../support/parse-exposition.ts';
import { bugsOf, errorsOfHealthy } from './checks.ts';
import type { Scrape } from './scrape.ts';
import { soakSettings } from './soak.ts';
import { createTally, growth, rank } from './soak-tally.ts';

function scraped(text: string): Scrape {
  const families = parseExposition(text, 'text');
  return {
    status: 200,
    headers: '',
    text,
    ms: 1,
    families,
    values: name => families.find(family => family.name === name)?.samples.map(({ value }) => value) ?? [undefined],
    value: name => families.find(family => family.name === name)?.samples[0]?.value,
  };
}

describe('soak tool', () => {
  it('soak parses its options and rejects invalid ones', () => {
    expect(soakSettings([]).services.length).toBeGreaterThan(100);
    expect(soakSettings(['--minutes', '0.5', '--seed', '7', '--only', 'hangs,html'])).toMatchObject({
      minutes: 0.5,
      seed: 7,
      services: [{ name: 'hangs' }, { name: 'html' }],
    });
    expect(() => soakSettings(['--only', 'nobody'])).toThrow('no service is called nobody');
    expect(() => soakSettings(['--minutes', 'few'])).toThrow('minutes');
    expect(() => soakSettings(['--hours', '1'])).toThrow('--hours');
  });

  it('soak distinguishes growing memory from flat memory', () => {
    expect(growth([100, 150, 200, 200, 200])).toBeUndefined();
    expect(growth([100, 150, 200, 220, 210, 205])).toBeLessThan(0.15);
    expect(growth([100, 150, 200, 250, 300, 350])).toBeGreaterThan(0.15);
  });

  it('soak computes percentiles by nearest rank', () => {
    expect(rank([3, 1, 2], 0.5)).toBe(2);
    expect(rank([3, 1, 2], 0.99)).toBe(3);
    expect(rank([], 0.5)).toBeNaN();
  });

  it('soak detects wrong metrics of a healthy account, and requests with the outcome "bug"', () => {
    const shown = scraped(
      [
        '# HELP delivery_up x\n# TYPE delivery_up gauge\ndelivery_up{account="healthy-1"} 0',
        '# HELP delivery_watch_api_requests_total x\n# TYPE delivery_watch_api_requests_total counter',
        'delivery_watch_api_requests_total{account="healthy-1",endpoint="dlq",outcome="bug"} 1\n',
      ].join('\n'),
    );
    expect(errorsOfHealthy(shown, 'healthy-1')).toContain('healthy-1: delivery_up[] is 0, not 1');
    expect(errorsOfHealthy(shown, 'healthy-1').length).toBeGreaterThan(10);
    expect(bugsOf(shown)).toEqual(['healthy-1: a bug at dlq']);
    const tally = createTally();
    tally.scraped(shown, 1024);
    expect(tally.table()).toContain('no violations');
    tally.violated('bug', 'planted');
    tally.violated('bug', 'again');
    expect(tally.violations).toBe(1);
    expect(tally.table()).toMatch(/VIOLATED bug +2 times, first after 0 s: planted/);
  });
});
