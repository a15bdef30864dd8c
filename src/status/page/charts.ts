import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';

/** Data of a chart; assets/chart-data.js documents the keys. */
export interface Chart {
  readonly kind: 'level' | 'rate' | 'stack' | 'quantile';
  readonly lines: readonly ChartLine[];
}

export interface ChartLine {
  readonly family: string;
  readonly name?: string;
  readonly look?: Look;
  readonly where?: Readonly<Record<string, string>> | undefined;
  /** Draws one line for each value of this label, at most `top` lines: the keys of `looks`, followed by the largest values. */
  readonly by?: string;
  readonly looks?: Readonly<Record<string, Look>>;
  readonly top?: number;
}

/** CSS classes in assets/pages.css. */
type Look = 'calm' | 'bad' | 'odd' | 'muted' | 'whole';

/** Returns a line that sums the series with the labels `where`. */
export const line = (family: string, name: string, look: Look, where?: ChartLine['where']): ChartLine => ({
  family,
  where,
  name,
  look,
});

export const CHART_ASSETS = ['uplot.css', 'pages.css', 'uplot.js', 'charts.js'] as const;

const HOURS = [6, 24, 48];

export function chartRange(): Html {
  const buttons = HOURS.map(
    hours =>
      html`<button type="button" data-hours="${hours}" aria-pressed="${String(hours === 48)}">${hours} h</button>`,
  );
  return html`<div class="chart-range" role="group" aria-label="Time that charts show" hidden>${buttons}</div>
<p class="chart-note soft" role="status"></p>
<noscript><p class="soft">Charts need JavaScript. All numbers are here without it.</p></noscript>`;
}

/** Adds the URL of the charts' data. */
export const charted = (account: string, { root }: PageContext, content: Html): Html =>
  html`<div data-history="${root}api/v1/accounts/${encodeURIComponent(account)}/history">${content}</div>`;

export const figure = (id: string, title: string, chart: Chart): Html =>
  html`<figure class="chart" id="chart-${id}" data-chart="${JSON.stringify(chart)}" data-keep><figcaption>${title}</figcaption></figure>`;
