import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { LABEL_VALUES } from '../../src/collectors/index.ts';
import { type Emulator, startEmulator } from '../../src/emulator/server.ts';
import { REQUEST_OUTCOMES } from '../../src/upstream/errors.ts';
import { knownSeries } from '../mixin/known-series.ts';
import { parsePromql } from '../mixin/parse-promql.ts';
import { mainFile } from '../support/bundle.ts';
import { type CliProcess, startCli } from '../support/cli.ts';
import { eventually } from '../support/eventually.ts';
import { type HttpService, startHttpService } from '../support/http-service.ts';
import { requireProgram } from '../support/prometheus.ts';
import { run } from '../support/run.ts';
import { codeIn, runbookCode } from '../support/runbook-code.ts';

const unique = (texts: readonly string[]) => [...new Set(texts)];
const ofKind = (kind: string) => unique(runbookCode.filter(code => code.kind === kind).map(({ text }) => text));

describe('code in runbooks', () => {
  it('all code in runbooks is of a known kind', () => {
    expect(runbookCode.filter(({ kind }) => kind === 'unknown')).toEqual([]);
    expect([ofKind('shell').length, ofKind('promql').length].every(count => count > 5)).toBe(true);
  });

  it.each([
    ['an unknown word', 'see `delivered-watch`'],
    ['an unknown key', '`events.overlapp`'],
    ['a block without a language', '```\ndelivery-watch plan\n```\n'],
    ['a block of another language', '```bash\ndelivery-watch plan\n```\n'],
    ['a command of another program', '`systemctl restart delivery-watch`'],
  ])('code in runbooks is reported as unknown: %s', (_what, text) => {
    expect(codeIn('x', text)).toMatchObject([{ kind: 'unknown' }]);
  });

  it('the runbook DeliveryBlind lists every request outcome that leaves the agent without data', () => {
    const named = runbookCode.flatMap(({ runbook, text }) => (runbook === 'DeliveryBlind' ? [text] : []));
    // Outcomes of successful requests.
    const successful = ['ok', 'not_found'];
    expect(named).toEqual(
      expect.arrayContaining([...REQUEST_OUTCOMES.filter(outcome => !successful.includes(outcome)), 'store']),
    );
  });

  it('a code block in a runbook is split into lines', () => {
    expect(
      codeIn('x', 'a\n\n```sh\none\ntwo\n```\n\n```promql\nup\n```\n`match`\n').map(({ text, kind }) => [text, kind]),
    ).toEqual([
      ['one', 'shell'],
      ['two', 'shell'],
      ['up', 'promql'],
      ['match', 'word'],
    ]);
  });
});

describe('PromQL in runbooks', () => {
  it.each(ofKind('promql'))('PromQL in runbooks is valid and uses existing metrics and labels: %s', expr => {
    const { faults, selectors, groupedBy } = parsePromql(expr);
    expect(faults).toEqual([]);
    expect(selectors.length).toBeGreaterThan(0);
    for (const { name, matchers } of selectors) {
      const labels = knownSeries.get(name);
      expect(labels, name).toBeDefined();
      expect(Object.keys(matchers).filter(label => !labels?.includes(label))).toEqual([]);
      expect(groupedBy.filter(label => !labels?.includes(label))).toEqual([]);
      for (const [label, matcher] of Object.entries(matchers)) {
        const values =
          LABEL_VALUES.get(name)?.[label] ??
          (name === 'delivery_watch_api_requests_total' && label === 'outcome' ? REQUEST_OUTCOMES : undefined);
        const [, value = ''] = /^="(.*)"$/.exec(matcher) ?? [];
        if (values && value) expect(values).toContain(value);
      }
    }
  });
});

describe('commands and pages in runbooks', () => {
  const folder = mkdtempSync(join(tmpdir(), 'delivery-watch-runbooks-'));
  let emulator: Emulator;
  let receiver: HttpService;
  let agent: CliProcess;
  let agentUrl: string;
  /** Values that replace the placeholders in commands, by placeholder. */
  let values: Readonly<Record<string, string>>;
  let env: Readonly<Record<string, string>>;

  beforeAll(async () => {
    emulator = await startEmulator({ history: 0, workload: false, dlqEntries: 3 });
    receiver = await startHttpService((_request, response) => void response.end());
    const messageId = 'msg_runbooks';
    emulator.state.addDlqEntry({ messageId });
    emulator.state.addDlqEntry({ queueName: 'emails', url: 'https://mail.example.com/send' });
    emulator.state.queues.open('emails', { parallelism: 1 });
    const dlqId = emulator.state.addFailedRun({ workflowUrl: 'https://stuck.example.com/run' });
    const config = join(folder, 'config.yaml');
    writeFileSync(
      config,
      JSON.stringify({
        server: { listen: '127.0.0.1:0' },
        store: { path: join(folder, 'store.db') },
        accounts: [
          {
            name: 'production',
            baseUrl: emulator.url,
            token: { env: 'TOKEN' },
            management: { baseUrl: emulator.url, username: 'ops', password: { env: 'PASSWORD' } },
            budget: { requestsPerSecond: 1000, burst: 1000, requestsPerDay: 100_000_000 },
          },
        ],
        alerts: { notifiers: [{ name: 'production', webhook: { url: receiver.url } }] },
        collect: { flowControl: { every: '1s' }, dlq: { every: '1s', rescanEvery: '2s' }, events: { every: '1s' } },
        autoCancel: {
          mode: 'plan',
          rules: [{ name: 'stuck', match: { workflowUrl: { prefix: ['https://stuck.example.com/'] } } }],
        },
      }),
    );
    // Wrapper with the name that the installed package provides.
    const bin = join(folder, 'delivery-watch');
    writeFileSync(bin, `#!/bin/sh\nexec '${process.execPath}' '${resolve(mainFile())}' "$@"\n`);
    chmodSync(bin, 0o755);
    env = { PATH: [folder, process.env.PATH].join(delimiter), TOKEN: emulator.token, PASSWORD: 'p' };
    agent = startCli(['serve', '--config', config], env);
    agentUrl = await agent.listensAt();
    values = {
      FILE: config,
      DLQ_ID: dlqId,
      MESSAGE_ID: messageId,
      NAME: 'production',
      SCHEDULE_ID: 'scd_1',
      QUEUE: 'emails',
      START: new Date().toISOString(),
      BREAKER: 'errors',
      $DELIVERY_TOKEN: emulator.token,
      $BASE_URL: emulator.url,
      'HOST:10922': new URL(agentUrl).host,
      HOST: 'added.example.com',
      '…': 'a test',
    };
    const list = await run('delivery-watch', ['list', 'dlq', '--queue', 'emails', '--json', '--config', config], env);
    values = { ...values, KIND: JSON.parse(list.stdout).kind };
    await eventually(async () => {
      const found = await run('delivery-watch', ['auto-cancel', 'explain', dlqId, '--config', config], env);
      expect(found).toMatchObject({ code: 0 });
    });
  });

  afterAll(async () => {
    agent?.kill('SIGKILL');
    await agent?.ended;
    await receiver?.close();
    await emulator?.close();
    rmSync(folder, { recursive: true });
  });

  it.each(ofKind('page'))('a page in runbooks exists: %s', async written => {
    const { status } = await fetch(new URL(written.replace('NAME', 'production'), agentUrl));
    expect(status).toBe(200);
  });

  /** Runs a command from a runbook in a shell, with values instead of placeholders. */
  async function runWritten(written: string) {
    const command = Object.entries(values).reduce((text, [name, value]) => text.replaceAll(name, value), written);
    // Remaining words in capitals are placeholders without a value.
    expect(command.replaceAll(folder, '').match(/\b(?!POST\b)[A-Z]{3,}(_[A-Z]+)*\b/g)).toBeNull();
    // Operators can run these commands without a token: they need only the store or the agent.
    const needsToken = !/auto-cancel (pause|resume|reset-breaker|journal|explain)/.test(command);
    const { PATH = '', ...secrets } = env;
    return run('sh', ['-c', command], { PATH, ...(needsToken ? secrets : {}) });
  }

  const hasCurl = requireProgram('curl');
  const commands = ofKind('shell').filter(command => hasCurl || !command.includes('curl '));
  it.each(commands)('a command in runbooks works: %s', async written => {
    const { code, stdout, stderr } = await runWritten(written);
    expect({ code, stderr: code === 0 ? '' : stderr }).toEqual({ code: 0, stderr: '' });
    // The emulator has no flow-control keys, events, schedules and runs, no dead letters that are a day old, and no others of the kind.
    if (!/ list (keys|events|schedules|runs) | --until | --kind /.test(written)) expect(stdout).not.toBe('');
  });

  it.skipIf(!hasCurl)(
    'the command that retries dead letters in batches retries only dead letters of a given kind and before a given time',
    async () => {
      const written = commands.find(command => command.includes('/v2/dlq/retry')) ?? '';
      for (let count = 0; count < 60; count += 1) emulator.state.addDlqEntry({ url: 'https://mail.example.com/send' });
      const start = Date.now();
      values = { ...values, START: new Date(start).toISOString() };
      await eventually(() => expect(Date.now()).toBeGreaterThan(start));
      const later = emulator.state.addDlqEntry({ url: 'https://mail.example.com/send' });
      const list = 'delivery-watch list dlq --config FILE --all --ids';
      const others = (await runWritten(list)).stdout.split('\n').length;
      expect(await runWritten(written)).toMatchObject({ code: 0 });
      expect(await runWritten(`${list} --kind KIND`)).toMatchObject({ stdout: `${later}\n` });
      expect((await runWritten(list)).stdout.split('\n')).toHaveLength(others - 60);
      // No request is sent: without ids, the service could retry all dead letters.
      expect(await runWritten(written)).toMatchObject({ code: 0, stdout: '' });
      expect((await runWritten(list)).stdout.split('\n')).toHaveLength(others - 60);
    },
  );
});
