import { grouped, percent } from '../../kit/text.ts';
import { age, duration } from './assets/age.js';
import { type Html, html } from './html.ts';

export { grouped, percent, plural } from '../../kit/text.ts';

/** Formats values as text, with the exact API value in an attribute. Null means unknown. */

const UNKNOWN = html`<data value=""><span class="none" aria-hidden="true">—</span><span class="hidden">not known</span></data>`;

const value = (of: number | null, write: (value: number) => string): Html =>
  of === null ? UNKNOWN : html`<data value="${of}">${write(of)}</data>`;

const HOUR = 3600;

/** Formats a number: `12,345`. */
export const count = (of: number | null) => value(of, grouped);
/** Formats a count: `3 walks`, `1 walk`. */
export const things = (of: number | null, one: string, many = `${one}s`) => html`${count(of)} ${of === 1 ? one : many}`;
/** Formats a ratio from 0 to 1: `99.2 %`. */
export const ratio = (of: number | null) => value(of, percent);
/** Formats a duration (s): `3 h 12 min`. */
export const lasting = (of: number | null) => value(of, duration);

/** Formats a duration (s) without its sign. */
export const distance = (of: number | null) => value(of, seconds => duration(Math.abs(seconds)));

/** Formats a window (s): `13 min`. Samples are a minute apart, so a window of an hour may be slightly shorter or longer. */
export const span = (of: number | null) =>
  value(of, seconds => duration(Math.abs(seconds - HOUR) < 120 ? HOUR : seconds));

/** Formats a change and its window: `+12 in 1 h`. */
export function change(of: { readonly by: number; readonly overSeconds: number } | null): Html {
  if (of === null) return UNKNOWN;
  const look = of.by > 0 ? 'up' : of.by < 0 ? 'down' : 'same';
  const by = value(of.by, number => (number > 0 ? `+${grouped(number)}` : grouped(number)));
  return html`<span class="change ${look}">${by} <small>in ${span(of.overSeconds)}</small></span>`;
}

/** Formats a time as `2026-11-22 10:03:12 UTC`. */
export const utc = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;

/** The current time by the service's clock (ms since the Unix epoch), and how far this clock is ahead of the agent's (ms). */
export interface ServiceNow {
  readonly now: number;
  readonly ahead: number;
}

export function serviceNowOf(view: { readonly now: string; readonly serviceNow: string }): ServiceNow {
  const now = Date.parse(view.serviceNow);
  return { now, ahead: now - Date.parse(view.now) };
}

/** Formats an age: `3 h 12 min ago`. The client script updates it. `at`: the current time by the clock that `iso` is from. */
export function ago(iso: string | null, at: number | ServiceNow): Html {
  if (iso === null) return UNKNOWN;
  const { now, ahead } = typeof at === 'number' ? { now: at, ahead: 0 } : at;
  const script = ahead === 0 ? html`data-ago` : html`data-ago="${ahead}"`;
  return html`<time datetime="${iso}" title="${utc(iso)}" ${script}>${age(Date.parse(iso), now)}</time>`;
}

/** Formats a time of day, preceded by its date unless that is the date of `now`: `10:03 UTC`. */
export function at(iso: string | null, now: number): Html {
  if (iso === null) return UNKNOWN;
  const isToday = iso.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
  return html`<time datetime="${iso}" title="${utc(iso)}">${isToday ? '' : `${iso.slice(0, 10)} `}${iso.slice(11, 16)} UTC</time>`;
}
