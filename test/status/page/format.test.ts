import { describe, expect, it } from 'vitest';
import { age, duration } from '../../../src/status/page/assets/age.js';
import {
  ago,
  at,
  change,
  count,
  grouped,
  lasting,
  percent,
  plural,
  serviceNowOf,
} from '../../../src/status/page/format.ts';

const NOW = Date.parse('2026-11-22T10:03:12.000Z');

describe('numbers', () => {
  it.each([
    [0, '0'],
    [999, '999'],
    [1000, '1,000'],
    [1_234_567, '1,234,567'],
    [-12_345, '−12,345'],
    [1234.5678, '1,234.57'],
    [9_007_199_254_740_991, '9,007,199,254,740,991'],
  ])('the number %d is formatted as %s', (number, text) => expect(grouped(number)).toBe(text));

  it.each([
    [1, '100 %'],
    [0.99999, '> 99.99 %'],
    [0.9995, '99.95 %'],
    [0.0234, '2.3 %'],
    [2.389, '238.9 %'],
    [0.29, '29 %'],
    [0.992, '99.2 %'],
    [0.00001, '< 0.01 %'],
    [0, '0 %'],
  ])('the share %d is formatted as %s, with 100 % and 0 % only for exact values', (ratio, text) =>
    expect(percent(ratio)).toBe(text),
  );

  it('a noun after a number is singular or plural, depending on the number', () => {
    expect(plural(1, 'problem')).toBe('1 problem');
    expect(plural(1200, 'entry', 'entries')).toBe('1,200 entries');
  });
});

describe('times', () => {
  it.each([
    [0, '0 s'],
    [0.012, '12 ms'],
    [0.00001, '1 ms'],
    [4.25, '4.2 s'],
    [59.9, '59 s'],
    [60, '1 min'],
    [90, '1 min 30 s'],
    [11_520, '3 h 12 min'],
    [3601, '1 h'],
    [183_600, '2 d 3 h'],
    [-90, '−1 min 30 s'],
  ])('%d seconds are formatted as %s', (seconds, text) => expect(duration(seconds)).toBe(text));

  it.each([
    [0, 'now'],
    [-400, 'now'],
    [12_000, '12 s ago'],
    [754_000, '12 min ago'],
    [11_520_000, '3 h 12 min ago'],
    [-300_000, 'in 5 min'],
  ])('a time %d ms ago is formatted as %s', (before, text) => expect(age(NOW - before, NOW)).toBe(text));
});

describe('page values', () => {
  it('each value shown on a page has an attribute with the exact API value', () => {
    expect(count(12_345).text).toBe('<data value="12345">12,345</data>');
    expect(lasting(0.25).text).toBe('<data value="0.25">250 ms</data>');
    expect(ago('2026-11-22T06:51:12.000Z', NOW).text).toBe(
      '<time datetime="2026-11-22T06:51:12.000Z" title="2026-11-22 06:51:12 UTC" data-ago>3 h 12 min ago</time>',
    );
    expect(change({ by: -3, overSeconds: 3600 }).text).toBe(
      '<span class="change down"><data value="-3">−3</data> <small>in <data value="3600">1 h</data></small></span>',
    );
  });

  it('an age by the clock of the service has an attribute with the offset of that clock, for the client script', () => {
    const now = { now: NOW + 600_000, ahead: 600_000 };
    expect(
      serviceNowOf({ now: new Date(NOW).toISOString(), serviceNow: new Date(NOW + 600_000).toISOString() }),
    ).toEqual(now);
    expect(ago(new Date(NOW + 540_000).toISOString(), now).text).toContain('data-ago="600000">1 min ago</time>');
  });

  it('times on pages include the date if it is not today', () => {
    expect(at('2026-11-22T09:58:00.000Z', NOW).text).toContain('>09:58 UTC</time>');
    expect(at('2026-11-21T09:58:00.000Z', NOW).text).toContain('>2026-11-21 09:58 UTC</time>');
  });

  it('unknown values on pages are shown as a dash with text for screen readers', () => {
    const unknown =
      '<data value=""><span class="none" aria-hidden="true">—</span><span class="hidden">not known</span></data>';
    for (const written of [count(null), ago(null, NOW), at(null, NOW), lasting(null)]) {
      expect(written.text).toBe(unknown);
    }
    expect(change(null).text).toBe(unknown);
  });
});
