import type { AgentView } from '../api/agent.ts';
import { ago, at, lasting, utc } from './format.ts';
import { type Html, html } from './html.ts';
import type { PageContext } from './layout.ts';
import { named } from './problems.ts';
import { section, tile, tilePanel } from './tile.ts';

/** Warns of an unavailable database, on pages that do not show the agent's problems. */
export const databaseNote = ({ databaseAway }: PageContext): Html | false =>
  databaseAway !== undefined &&
  html`<p class="note critical"><span class="tag down">database unavailable</span> since ${utc(new Date(databaseAway).toISOString())}: counters are frozen, and auto-cancel is suspended.</p>`;

export function leaderSection({ leader, now }: AgentView): Html | false {
  if (leader === null) return false;
  const { url, since, leaseSeconds, databaseAway } = leader;
  const clock = Date.parse(now);
  const body = tilePanel(
    tile(
      'Leader',
      named(URL.parse(url)?.host || url),
      html`since ${ago(since, clock)}; lease of ${lasting(leaseSeconds)}`,
    ),
    tile(
      'Database',
      html`${databaseAway === null ? 'available' : 'unavailable'}`,
      databaseAway !== null && html`since ${at(databaseAway, clock)}`,
    ),
  );
  return section('leader', 'Leader', body);
}
