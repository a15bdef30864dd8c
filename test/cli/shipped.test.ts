import { describe, expect, it } from 'vitest';
import { DEFAULT_OBJECTIVES, filled, shippedDashboards, shippedRules } from '../../src/cli/shipped.ts';

const objectives = DEFAULT_OBJECTIVES;
const links = { runbooks: 'https://w.example', grafana: 'https://g.example', traces: 'https://t.example' };

describe('placeholders', () => {
  it.each([{}, links, { ...links, job: 'dw' }])(
    'shipped rules and dashboards contain no placeholder with the settings %j',
    settings => {
      expect(JSON.stringify(shippedRules({ ...settings, objectives }))).not.toMatch(/<<|>>|undefined/);
      expect(JSON.stringify(shippedDashboards({ ...settings, objectives }))).not.toMatch(/<<|>>|undefined/);
    },
  );

  it('shipped rules quote the job in PromQL, but not in labels and texts', () => {
    const job = 'a"b\\c $& <<window>>';
    const rules = shippedRules({ job, objectives }).flatMap(group => group.rules);
    expect(rules.find(({ alert }) => alert === 'DeliveryAgentDown')).toMatchObject({
      expr: `absent(up{job=${JSON.stringify(job)}} == 1)`,
      labels: { job },
      annotations: { description: expect.stringContaining(`the job ${job} has`) },
    });
  });
});

it('a template’s placeholders are replaced by typed values, and properties whose placeholder has no value are removed', () => {
  const template = '{"a":"<<onTimeSeconds>>","b":"[<<window>>:1h]","c":"<<grafana>>/d","d":["<<traces>>",1,null]}';
  expect(filled(template, { objectives })).toEqual({ a: 300, b: '[30d:1h]', d: ['/explore', 1, null] });
});
