import { Html, html } from './html.ts';

/** What pages know beside what they show. */
export interface PageContext {
  /** From the page to the root of the port: '' or '../'. All links are relative: an agent may stand below a path of a proxy. */
  readonly root: string;
  /** From the root to style sheet and scripts, such as `assets/0f3a/`; another one where their content is another. */
  readonly assets: string;
  readonly version: string;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** `server.lifecycle`. */
  readonly lifecycle: boolean;
  /** Who asks, where the port knows. */
  readonly caller: string | undefined;
  /** URL of this replica, where replicas share the store. */
  readonly replica?: string | undefined;
  /** Since when the database that replicas share does not answer, milliseconds since the Unix epoch. */
  readonly databaseAway?: number | undefined;
}

const PLACES = {
  overview: ['', 'Accounts'],
  'auto-cancel': ['auto-cancel', 'Auto-cancel'],
  agent: ['agent', 'Agent'],
} as const;

export interface Layout {
  /** Of the page; `· delivery-watch` is added. */
  readonly title: string;
  readonly context: PageContext;
  /** Which link of the head the page is under. */
  readonly nav: keyof typeof PLACES;
  /** What changes with the numbers stands in `<section id="…" data-live>`, and in there nothing that has `data-keep` is touched. */
  readonly body: Html;
  /** Files of assets/ beyond those of every page, in order: scripts (`.js`; modules, but for that of a library) and styles (`.css`). */
  readonly uses?: readonly string[];
}

/** From the root of the port to the page of an account. */
export const accountPath = (account: string) => `accounts/${encodeURIComponent(account.toWellFormed())}`;

/** From the root of the port to a runbook, which the agent serves itself: no other site is needed. */
export const runbookPath = (name: string) => `runbooks/${encodeURIComponent(name.toWellFormed())}`;

function navigation({ root, nav }: { readonly root: string; readonly nav: string }): Html[] {
  return Object.entries(PLACES).map(([place, [path, word]]) => {
    const current = place === nav ? new Html(' aria-current="true"') : '';
    return html`<a href="${root + path || './'}"${current}>${word}</a>`;
  });
}

function needed(uses: readonly string[], folder: string): Html[] {
  return uses.map(name =>
    name.endsWith('.css')
      ? html`<link rel="stylesheet" href="${folder + name}">`
      : html`<script ${new Html(name === 'uplot.js' ? 'defer' : 'type="module"')} src="${folder + name}"></script>`,
  );
}

/** A whole page. It holds neither scripts nor styles, which the Content-Security-Policy forbids in it. */
export function layout({ title, context, nav, body, uses = [] }: Layout): Html {
  const { root, version, caller } = context;
  const folder = root + context.assets;
  const now = new Date(context.now).toISOString();
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · delivery-watch</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="${folder}style.css">
${needed(uses, folder)}<script type="module" src="${folder}client.js"></script>
</head>
<body data-stream="${root}api/v1/stream" data-now="${now}">
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="brand" href="${root || './'}">delivery-watch</a>
<nav aria-label="Pages">${navigation({ root, nav })}</nav>
<p class="live" id="live" data-live-state="still"><span class="live-word">numbers of</span> <time datetime="${now}">${now.slice(11, 19)} UTC</time></p>
</header>
<main id="main" tabindex="-1">
${body}
</main>
<footer>
<p>delivery-watch ${version}${caller === undefined ? '' : html` · signed in as <b class="name"><bdi>${caller}</bdi></b>`}</p>
<nav aria-label="Data"><a href="${root}metrics">metrics</a> <a href="${root}api/v1/status">rounds</a> <a href="${root}api/v1/alerts">alerts</a> <a href="${root}api/v1/openapi.json">API</a></nav>
</footer>
</body>
</html>
`;
}
