import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';

/** What a chart draws of families; assets/chart-data.js says what each key means. */
export interface Chart {
  readonly id: string;
  readonly title: string;
  readonly kind: 'level' | 'rate' | 'stack' | 'quantile';
  readonly unit?: 'seconds';
  /** Of a histogram, from 0 to 1. */
  readonly quantiles?: readonly number[];
  readonly lines: readonly ChartLine[];
}

export interface ChartLine {
  readonly family: string;
  readonly name?: string;
  readonly look?: Look;
  /** Only series with these labels. */
  readonly where?: Readonly<Record<string, string>>;
  /** A line for each value of this label: those in `looks` in that order, then the largest, at most `top`. */
  readonly by?: string;
  readonly looks?: Readonly<Record<string, Look>>;
  readonly top?: number;
}

/** Classes of assets/pages.css. */
type Look = 'calm' | 'bad' | 'odd' | 'muted' | 'whole';

/** Files of assets/ that a page with charts needs. */
export const CHART_ASSETS = ['uplot.css', 'pages.css', 'uplot.js', 'charts.js'] as const;

const HOURS = [6, 24, 48];

/** Which time the charts of a page show: nothing without JavaScript, but a word about it. */
export function chartRange(): Html {
  const buttons = HOURS.map(
    hours =>
      html`<button type="button" data-hours="${hours}" aria-pressed="${String(hours === 48)}">${hours} h</button>`,
  );
  return html`<div class="chart-range" role="group" aria-label="Time that charts show" hidden>${buttons}</div>
<p class="chart-note soft" role="status"></p>
<noscript><p class="soft">Charts need JavaScript. All numbers are here without it.</p></noscript>`;
}

/** Where the charts of an account's page get their data; `content` has their figures. */
export const charted = (account: string, { root }: PageContext, content: Html): Html =>
  html`<div data-history="${root}api/v1/accounts/${encodeURIComponent(account)}/history">${content}</div>`;

export const figure = ({ id, title, ...spec }: Chart): Html =>
  html`<figure class="chart" id="chart-${id}" data-chart="${JSON.stringify(spec)}" data-keep><figcaption>${title}</figcaption></figure>`;
