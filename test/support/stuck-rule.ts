/**
 * Returns an auto-cancel section that cancels failure callbacks of https://stuck.example.com/ after two walks. `limits`: limits
 * of the rule.
 */
export function cancelStuck(
  limits: { readonly perRun: number; readonly perHour: number },
  perDay: number,
  max: number,
) {
  return {
    mode: 'enforce',
    limits: { ...limits, perDay, spacing: '0s' },
    breaker: {
      candidates: { max, percent: 100 },
      errors: { max: 100 },
      lostRaces: { percent: 100, ofLast: 100 },
    },
    rules: [
      {
        name: 'stuck',
        mode: 'enforce',
        expires: '2099-12-31',
        match: { workflowUrl: { prefix: ['https://stuck.example.com/'] } },
        stuckWhen: {
          inProgressFor: '1s',
          snapshots: 2,
          pastRetryWindow: 1,
          assumeMaxRetries: 0,
          assumeTimeout: '1s',
        },
        grace: '0s',
        cooldown: { perUrl: '0s' },
        limits,
      },
    ],
  };
}
