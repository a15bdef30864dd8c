import { describe, expect, it } from 'vitest';
import { AgentView } from '../../../src/status/api/agent.ts';
import { agentPage } from '../../../src/status/page/agent.ts';
import { distinct, foreignValues, unshownFacts } from '../../support/page-values.ts';
import { context, part, read, strange } from './context.ts';
import { agent, hostileAgent, sharedAgent } from './fixtures/agent.ts';

const page = (view: AgentView) => agentPage(view, context).text;

describe('agent page', () => {
  it.each(Object.entries({ agent, hostileAgent, sharedAgent }))(
    'the agent page shows only values that the API returns: %s',
    (_, view) => {
      expect(AgentView.parse(view)).toEqual(view);
      for (const each of [view, distinct(view)]) expect(foreignValues(page(each), each)).toEqual([]);
      expect(page(view)).not.toMatch(/undefined|NaN|\[object/);
      expect(strange(page(view))).toEqual([]);
    },
  );

  it('the agent page shows all numbers and times that the API returns, and the positions of errors', () => {
    for (const view of [distinct(agent), distinct(sharedAgent)]) {
      const missing = unshownFacts(page(view), view);
      expect(missing.filter(path => !/^now$|^lastReload\.faults/.test(path))).toEqual([]);
    }
    expect(read(part(page(agent), 'configuration'))).toContain(
      'refused /etc/delivery-watch/config.yaml:12:5 unknown key &quot;tokn&quot;',
    );
  });

  it.each<[string, AgentView['lastReload']]>([
    ['The configuration has not been reloaded since the agent started.', null],
    ['No changes.', { at: agent.now, changed: [], faults: [] }],
    [
      'The last reload 10:15 UTC , now accounts.production: budget',
      { at: agent.now, changed: ['accounts.production: budget'], faults: [] },
    ],
  ])('the agent page describes the last reload: %s', (words, lastReload) =>
    expect(read(part(page({ ...agent, lastReload }), 'configuration'))).toContain(words),
  );

  it('the configuration is escaped and can be scrolled with the keyboard', () => {
    expect(page(agent)).toMatch(
      /<pre class="file" tabindex="0"[^>]*>accounts:\n {2}- name: production\n {4}token: &lt;redacted&gt;/,
    );
  });

  it('the agent page lists the replicas, and omits the section if there are none', () => {
    expect(page(agent)).not.toContain('id="replicas"');
    const text = read(part(page(sharedAgent), 'replicas'));
    expect(text).toMatch(
      /Replicas 3 lease of 15 s Accounts here 66 of 3 accounts Without a replica 1 billing Database unavailable since/,
    );
    expect(text).toMatch(
      /Last handover 6 min \d+ s ago gained staging , eu-1 , eu-2 , eu-3 , eu-4 and 1 more; lost production/,
    );
    expect(text).toContain('watch-1.watch.svc:10922 this one');
    expect(page(sharedAgent)).toContain('href="https://watch.example.com/two/agent"');
    expect(page(hostileAgent)).not.toContain('href="javascript');
  });
});
