import { describe, expect, it } from 'vitest';
import { filled, shippedDashboards, shippedRules } from '../../src/cli/shipped.ts';

const links = { runbooks: 'https://w.example', grafana: 'https://g.example', traces: 'https://t.example' };

describe('placeholders', () => {
  it.each([{}, links, { ...links, job: 'dw' }])(
    'shipped rules and dashboards contain no placeholder with the settings %j',
    settings => {
      expect(JSON.stringify(shippedRules(settings))).not.toMatch(/<<|>>|undefined/);
      expect(JSON.stringify(shippedDashboards(settings))).not.toMatch(/<<|>>|undefined/);
    },
  );

  it('shipped rules quote the job name in PromQL, but contain it unchanged in labels and texts', () => {
    const job = 'a"b\\c $& <<window>>';
    const { rules } = shippedRules({ job }).default;
    expect(rules.find(({ alert }) => alert === 'DeliveryAgentDown')).toMatchObject({
      expr: `absent(up{job=${JSON.stringify(job)}} == 1)`,
      labels: { job },
      annotations: { summary: expect.stringContaining(`of the job ${job}, so`) },
    });
  });
});

it('a template’s placeholders are replaced by typed values, and a property is removed if its placeholder has no value', () => {
  const template =
    '{"a":"<<onTimeSeconds>>","b":"[<<onTimeWithin>>:1h]","c":"<<grafana>>/d","d":["<<traces>>",1,null]}';
  expect(filled(template, {})).toEqual({ a: 300, b: '[5m:1h]', d: ['/explore', 1, null] });
});
