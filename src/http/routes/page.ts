import { Router } from 'express';
import { formatDuration } from '../../kit/duration.ts';
import type { AccountStatus, RoundStatus } from '../../model/status.ts';
import type { ReloadFault, Served, ShownAlert } from '../served.ts';
import { onlyAllow, READ } from './methods.ts';

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};
const escapeHtml = (text: string) => text.replace(/[&<>"']/g, character => ENTITIES[character] as string);

const LINKS = [
  '/metrics',
  '/metrics/agent',
  '/api/v1/status',
  '/api/v1/alerts',
  '/api/v1/sd',
  '/-/healthy',
  '/-/ready',
];

const STYLE = `body{font:15px/1.5 system-ui,sans-serif;margin:2rem;color:#222;background:#fff}
table{border-collapse:collapse;margin:1rem 0}th,td{text-align:left;padding:.3rem .9rem .3rem 0;border-bottom:1px solid #ddd}
.ok{color:#17692f}.bad{color:#a51616}.off{color:#8a5200}
@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}th,td{border-color:#444}.ok{color:#6c6}.bad{color:#f77}.off{color:#fb5}}`;

/** What a round's state is called on the page, and how it is shown. */
function verdict(round: RoundStatus, withdrawn: boolean): { word: string; look: 'ok' | 'bad' | 'off' } {
  if (withdrawn) return { word: 'withdrawn: too old to be shown', look: 'bad' };
  if (round.stale) return { word: 'stale', look: 'bad' };
  if (round.idle === 'waiting') return { word: 'waiting for another round', look: 'off' };
  if (round.idle === 'not_due') return { word: 'nothing to read yet', look: 'off' };
  if (round.success === undefined) return { word: 'waiting for the first round', look: 'off' };
  return round.success
    ? { word: 'ok', look: 'ok' }
    : {
        word: round.dataAt === undefined ? 'failed; nothing read yet' : 'failed; showing the last complete data',
        look: 'off',
      };
}

function rows({ account, collectors }: AccountStatus, now: number): string {
  return collectors
    .flatMap(({ collector, withdrawn, rounds }) =>
      rounds.map(round => {
        const { word, look } = verdict(round, withdrawn);
        const age = round.dataAt === undefined ? '–' : `${((now - round.dataAt) / 1000).toFixed(0)} s ago`;
        const took = round.durationSeconds === undefined ? '–' : `${round.durationSeconds.toFixed(3)} s`;
        const why = round.failure ? `${round.failure.reason}: ${round.failure.message}` : '';
        const cells = [account, collector, round.round, formatDuration(round.every), age, took].map(escapeHtml);
        return `<tr><td>${cells.join('</td><td>')}</td><td class="${look}">${word}</td><td>${escapeHtml(why)}</td></tr>`;
      }),
    )
    .join('\n');
}

/** A line for each alert that fires. */
function firing(alerts: readonly ShownAlert[]): string {
  return alerts
    .filter(({ state }) => state === 'firing')
    .map(({ labels, annotations, startsAt = '', silencedBy, sent = true }) => {
      const { alertname = '', ...others } = labels;
      const of = Object.entries(others).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
      const text = `${alertname} since ${startsAt} (${of.join(', ')})`;
      const [look, word] = silencedBy === undefined ? ['bad', 'firing'] : ['off', 'silenced'];
      const why =
        silencedBy === undefined ? (sent ? '' : '(beyond the limit of its rule: not sent)') : `(${silencedBy})`;
      const more = escapeHtml(`${annotations.summary ?? ''} ${why}`.trim());
      return `<p><span class="${look}">${word}</span> ${escapeHtml(text)} ${more}</p>`;
    })
    .join('\n');
}

/** Why the configuration in the files is not in use. */
function notReloaded(faults: readonly ReloadFault[]): string {
  return faults
    .map(({ file, line, column, message }) => {
      const place = [file, line, column].filter(each => each !== undefined).join(':');
      return `<p><span class="bad">not reloaded</span> ${escapeHtml(`${place}: ${message}`)}</p>`;
    })
    .join('\n');
}

/** GET /: which alerts fire, and what each account's collectors are doing, for people. */
export function pageRoutes(served: Served): Router {
  return Router()
    .get('/', (_request, response) => {
      const { version, clock } = served;
      const accounts = served.status();
      const up = accounts.filter(account => account.up).length;
      // That of the web configuration wins.
      if (!response.hasHeader('Content-Security-Policy'))
        response.setHeader('Content-Security-Policy', "default-src 'none'; style-src 'unsafe-inline'");
      response.type('html').send(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>delivery-watch</title><style>${STYLE}</style></head>
<body><h1>delivery-watch ${escapeHtml(version)}</h1>
<p>${up} of ${accounts.length} accounts up. ${LINKS.map(link => `<a href="${link.slice(1)}">${link}</a>`).join(' · ')}</p>
${notReloaded(served.reloadFaults())}
${firing(served.alerts())}
<table><thead><tr><th>account</th><th>collector</th><th>round</th><th>every</th><th>last complete</th><th>took</th><th>state</th><th>last failure</th></tr></thead>
<tbody>
${accounts.map(account => rows(account, clock.now())).join('\n')}
</tbody></table></body></html>
`);
    })
    .all('/', onlyAllow(READ));
}
