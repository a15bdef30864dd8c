import { defineConfig } from 'vitest/config';
import { BaseSequencer } from 'vitest/node';
import { atThisLoad } from './test/support/eventually.ts';

/** Tests that start processes, selected by folder and name, so that a new file needs no entry. */
const PROCESSES = ['test/{e2e,hostile,mixin,store}/**/*.test.ts', 'test/**/*.e2e.test.ts'];
const LONG = ['test/**/*.long.test.ts'];

/** This timeout only ends hanging tests: tests set timeouts for each condition (see test/support/eventually.ts). */
const MINUTE = 60_000;
const processes = {
  setupFiles: ['test/support/own-modules.ts'],
  testTimeout: atThisLoad(20 * MINUTE),
  hookTimeout: atThisLoad(20 * MINUTE),
  globalSetup: ['test/support/bundle.ts'],
};

/** The slowest files, the slowest first. */
const SLOW = [
  'e2e/alert-chain-kills.long',
  'e2e/alert-chain.long',
  'e2e/replicas.long',
  'e2e/auto-cancel-crash.long',
  'auto-cancel/month.long',
  'hostile/hostile.long',
  'rules/situations/variants.long',
  'collectors/flow-control/drain.long',
  'model/model.long',
  'status/scenarios.long',
  'e2e/image.long',
  'e2e/auto-cancel-enforced.long',
  'agent/hand-overs.long',
  'agent/reload.long',
  'e2e/rotate-token-killed.long',
  'e2e/page.long',
  'e2e/page-thousand.long',
  'e2e/event-log.long',
  'e2e/dashboards.long',
  'e2e/pause.long',
  'e2e/rotate-token-failing.long',
  'e2e/auto-cancel-agent.long',
  'e2e/alerts.long',
  'e2e/outage.long',
  'e2e/alerts-parity.long',
  'e2e/replicas-few.long',
  'mixin/alerting',
  'e2e/process',
  'e2e/auto-cancel-crash',
  'e2e/prometheus',
  'e2e/list',
  'status/scenarios.e2e',
  'store/kill',
].map(name => `test/${name}.test.ts`);

/**
 * Starts with the slow files, so that none of them runs alone at the end. Unit tests, which run sequentially in one process,
 * come last.
 */
class SlowFirst extends BaseSequencer {
  override async sort(files: Parameters<BaseSequencer['sort']>[0]) {
    const place = ({ moduleId, project }: (typeof files)[number]) => {
      const at = SLOW.findIndex(file => moduleId.endsWith(file));
      return at < 0 ? SLOW.length + Number(project.name === 'unit') : at;
    };
    return (await super.sort(files)).sort((one, other) => place(one) - place(other));
  }
}

export default defineConfig({
  test: {
    pool: 'forks',
    // More workers than cores, because most tests wait for other processes.
    maxWorkers: 6,
    // Files run sequentially in one process: starting a process for each would cost half a second of processor time.
    isolate: false,
    sequence: { sequencer: SlowFirst },
    globalSetup: ['test/support/compile-cache.ts'],
    // Failures show lists of faults whole.
    chaiConfig: { truncateThreshold: 2000 },
    projects: [
      {
        extends: true,
        test: {
          name: 'unit',
          include: ['test/**/*.test.ts'],
          exclude: [...PROCESSES, ...LONG],
          setupFiles: ['test/support/no-processes.ts', 'test/support/own-modules.ts'],
          testTimeout: atThisLoad(2 * MINUTE),
        },
      },
      { extends: true, test: { name: 'e2e', include: PROCESSES, exclude: LONG, ...processes } },
      { extends: true, test: { name: 'long', include: LONG, ...processes } },
    ],
  },
});
