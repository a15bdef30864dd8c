import { age, duration, toMinute } from './assets/age.js';
import { Html, html } from './html.ts';

/**
 * How values are written on pages. Each carries what the API says beside what people read: `path` is where the value stands in the
 * answer of the page's API route, such as `rows.0.deadLetters`. null: not known.
 */

const NOT_KNOWN = html`<span class="none" aria-hidden="true">—</span><span class="hidden">not known</span>`;

const notKnown = (path: string) => html`<data value="" data-path="${path}">${NOT_KNOWN}</data>`;

function value(of: number | null, path: string, write: (value: number) => string): Html {
  if (of === null) return notKnown(path);
  return html`<data value="${String(of)}" data-path="${path}">${write(of)}</data>`;
}

/** `12,345`; at most two decimals. */
export function grouped(number: number): string {
  const [whole = '', fraction] = String(Math.round(number * 100) / 100).split('.');
  const text = whole.replace(/\B(?=(\d{3})+$)/g, ',').replace('-', '−');
  return fraction === undefined ? text : `${text}.${fraction}`;
}

/** A share in percent. It is all only where nothing is missing, and none only where there is nothing. */
export function percent(ratio: number): string {
  if (ratio > 0 && ratio < 0.0001) return '< 0.01 %';
  // To a millionth of the last digit: 0.29 times 10,000 is less than 2,900.
  return `${grouped(Math.floor(ratio * 1e4 + 1e-6) / 100)} %`;
}

const HOUR = 3600;

const SIZES = ['B', 'kB', 'MB', 'GB', 'TB'];

export function bytesText(bytes: number): string {
  const power = Math.min(SIZES.length - 1, Math.max(0, Math.floor(Math.log10(Math.max(1, bytes)) / 3)));
  const scaled = bytes / 1000 ** power;
  return `${grouped(power > 0 && scaled < 10 ? Math.round(scaled * 10) / 10 : Math.round(scaled))} ${SIZES[power]}`;
}

/** A number of things: `12,345`. */
export const count = (of: number | null, path: string) => value(of, path, grouped);
/** A share from 0 to 1: `99.2 %`. */
export const ratio = (of: number | null, path: string) => value(of, path, percent);
export const bytes = (of: number | null, path: string) => value(of, path, bytesText);
/** Seconds: `3 h 12 min`. */
export const lasting = (of: number | null, path: string) => value(of, path, duration);

/** The time that something is counted over: `13 min`. Samples are a minute apart, so an hour of them is about an hour. */
export const span = (of: number | null, path: string) =>
  value(of, path, seconds => duration(Math.abs(seconds - HOUR) < 120 ? HOUR : toMinute(seconds)));

/** What a number changed by, and in which time: `+12 in 1 h`. */
export function change(of: { readonly by: number; readonly overSeconds: number } | null, path: string): Html {
  if (of === null) return notKnown(`${path}.by`);
  const look = of.by > 0 ? 'up' : of.by < 0 ? 'down' : 'same';
  const by = value(of.by, `${path}.by`, number => (number > 0 ? `+${grouped(number)}` : grouped(number)));
  return html`<span class="change ${look}">${by} <small>in ${span(of.overSeconds, `${path}.overSeconds`)}</small></span>`;
}

/** `2026-11-22 10:03:12 UTC` */
export const utc = (iso: string) => `${iso.slice(0, 10)} ${iso.slice(11, 19)} UTC`;

function time(iso: string | null, path: string, ago: boolean, write: (iso: string) => string): Html {
  if (iso === null) return notKnown(path);
  const more = ago ? new Html(' data-ago') : '';
  return html`<time datetime="${iso}" data-path="${path}" title="${utc(iso)}"${more}>${write(iso)}</time>`;
}

/** How long ago: `3 h 12 min ago`. The page keeps it true. `now`: milliseconds since the Unix epoch. */
export const ago = (iso: string | null, path: string, now: number) =>
  time(iso, path, true, text => age(Date.parse(text), now));

/** A time of the day, with its date where that is another day than `now`: `10:03 UTC`. */
export const at = (iso: string | null, path: string, now: number) =>
  time(iso, path, false, text => {
    const isToday = text.slice(0, 10) === new Date(now).toISOString().slice(0, 10);
    return `${isToday ? '' : `${text.slice(0, 10)} `}${text.slice(11, 16)} UTC`;
  });

/** `3 problems`, `1 problem`. */
export const plural = (number: number, one: string, many = `${one}s`) =>
  `${grouped(number)} ${number === 1 ? one : many}`;
