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

  it('the agent page shows the leader and the state of the database, and omits the section if the store is not shared', () => {
    expect(page(agent)).not.toContain('id="leader"');
    const text = read(part(page(sharedAgent), 'leader'));
    expect(text).toMatch(
      /Leader watch-1\.watch\.svc:10922 since 6 min \d+ s ago ; lease of 15 s Database unavailable since/,
    );
    expect(page(hostileAgent)).not.toContain('href="javascript');
  });
});
