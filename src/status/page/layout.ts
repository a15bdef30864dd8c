import { Html, html } from './html.ts';

export interface PageContext {
  /** Path to the server's root, such as `../`. Links are relative, because a proxy may serve the agent below a path. */
  readonly root: string;
  /** Path from the root to style sheets and scripts. */
  readonly assets: string;
  readonly version: string;
  /** Milliseconds since the Unix epoch. */
  readonly now: number;
  /** Start of the current database outage (ms since the Unix epoch), if any. */
  readonly databaseAway?: number | undefined;
}

const PLACES = {
  overview: ['', 'Accounts'],
  'auto-cancel': ['auto-cancel', 'Auto-cancel'],
} as const;

export interface Layout {
  /** Title of the page without `· delivery-watch`. */
  readonly title: string;
  readonly context: PageContext;
  readonly nav: keyof typeof PLACES;
  /** The client script updates elements with `id` and `data-live`, except parts with `data-keep`. */
  readonly body: Html;
  /** Additional style sheets and scripts from assets/, in loading order. The scripts are modules, except the library. */
  readonly uses?: readonly string[];
}

export const accountPath = (account: string) => `accounts/${encodeURIComponent(account)}`;

/** Returns the path of the page with an account's newest entries, optionally of one kind. */
export const entriesPath = (account: string, kind?: string) =>
  `${accountPath(account)}/dlq${kind === undefined ? '' : `?kind=${encodeURIComponent(kind)}`}`;

export const runbookPath = (name: string) => `runbooks/${encodeURIComponent(name)}`;

function needed(uses: readonly string[], folder: string): Html[] {
  return uses.map(name =>
    name.endsWith('.css')
      ? html`<link rel="stylesheet" href="${folder + name}">`
      : html`<script ${new Html(name === 'uplot.js' ? 'defer' : 'type="module"')} src="${folder + name}"></script>`,
  );
}

/** Renders a page without inline scripts and styles, which the Content-Security-Policy forbids. */
export function layout({ title, context, nav, body, uses = [] }: Layout): Html {
  const { root, version } = context;
  const folder = root + context.assets;
  const now = new Date(context.now).toISOString();
  const places = Object.entries(PLACES).map(([place, [path, word]]) => {
    const current = place === nav ? new Html(' aria-current="true"') : '';
    return html`<a href="${root + path || './'}"${current}>${word}</a>`;
  });
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
<body data-now="${now}">
<a class="skip" href="#main">Skip to content</a>
<header class="top">
<a class="brand" href="${root || './'}">delivery-watch</a>
<nav aria-label="Pages">${places}</nav>
<p class="live" id="live" data-live-state="still"><span class="live-word">data as of</span> <time datetime="${now}">${now.slice(11, 19)} UTC</time></p>
</header>
<main id="main" tabindex="-1">
${body}
</main>
<footer>
<p>delivery-watch ${version}</p>
<nav aria-label="Data"><a href="${root}metrics">metrics</a> <a href="${root}api/v1/status">rounds</a> <a href="${root}api/v1/alerts">alerts</a> <a href="${root}api/v1/openapi.json">API</a></nav>
</footer>
</body>
</html>
`;
}
