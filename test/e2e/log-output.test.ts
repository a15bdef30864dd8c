import { execFileSync } from 'node:child_process';
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  truncateSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { createLogOutput } from '../../src/telemetry/log-output.ts';
import { createAgent, scrape, unlimited } from '../support/agent.ts';
import { type CliProcess, runCli, startCli } from '../support/cli.ts';
import { afterThisTest } from '../support/client.ts';
import { eventually } from '../support/eventually.ts';
import { newFolder } from '../support/folder.ts';
import { json, serve } from '../support/http-service.ts';
import { freePort, requireProgram } from '../support/prometheus.ts';

const { O_NONBLOCK, O_RDWR } = constants;
const DROPPED = 'delivery_watch_log_lines_dropped_total';

function open(file: string, flags: string | number): number {
  const fd = openSync(file, flags);
  afterThisTest(async () => closeSync(fd));
  return fd;
}

/** Creates a FIFO with a reader that reads only when `read` is called. */
function createFifo() {
  const path = join(newFolder(), 'fifo');
  execFileSync('sh', ['-c', `mkfifo ${path}`]);
  const fd = open(path, O_RDWR | O_NONBLOCK);
  /** Calls `step` until it rejects because the FIFO is empty or full. */
  function repeat(step: () => void): void {
    try {
      for (;;) step();
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error;
    }
  }
  return {
    path,
    fd,
    fill: () => repeat(() => writeSync(fd, 'x')),
    read(): string {
      const chunk = Buffer.alloc(2 ** 16);
      let text = '';
      repeat(() => {
        text += chunk.toString('utf8', 0, readSync(fd, chunk));
      });
      return text;
    },
  };
}

describe('createLogOutput', () => {
  function createOutput(fd: number) {
    const counted = { dropped: 0 };
    const output = createLogOutput(lines => {
      counted.dropped += lines;
    }, fd);
    return { write: output.write, counted };
  }

  it.each([
    ['a full disk', () => open('/dev/full', 'w')],
    ['a file that is open for reading', () => open('/dev/null', 'r')],
    ['a descriptor that is not open', () => 987],
  ])('on %s, drops and counts every line', async (_what, fd) => {
    const { write, counted } = createOutput(fd());
    for (let line = 1; line <= 100; line += 1) write(`${line}\n`);
    await eventually(() => expect(counted.dropped).toBe(100));
    write('one more\n');
    await eventually(() => expect(counted.dropped).toBe(101));
  });

  it('the output buffers 4 MB for a pipe that is not read, counts dropped lines, and writes whole lines when the pipe is read', async () => {
    const fifo = createFifo();
    const { write, counted } = createOutput(fifo.fd);
    const line = (index: number) => `${index} ${'x'.repeat(1000)}\n`;
    for (let index = 0; index < 10_000; index += 1) write(line(index));
    await eventually(() => expect(counted.dropped).toBeGreaterThan(1000));
    let text = '';
    await eventually(() => {
      text += fifo.read();
      expect(text.split('\n').length - 1).toBe(10_000 - counted.dropped);
    });
    const kept = Array.from({ length: 10_000 - counted.dropped }, (_, index) => line(index)).join('');
    expect(text === kept).toBe(true);
    write('after\n');
    await eventually(() => expect(fifo.read()).toBe('after\n'));
  });
});

/** Starts an agent with `shell` as the redirection of its standard error. */
async function startAgent(shell: string, folder: string) {
  // Rounds after this response are not delayed.
  const { url } = await serve((_request, response) => json(response, [], 403));
  const listen = `127.0.0.1:${await freePort()}`;
  const { configFile } = createAgent({
    server: { listen },
    log: { level: 'debug' },
    collect: { flowControl: { every: '10ms' }, dlq: { enabled: false }, events: { enabled: false } },
    accounts: [unlimited('a', url)],
  });
  const wrap = ['sh', '-c', `cd ${folder}; ${shell}`, 'sh'];
  const agent = startCli(['serve', '--config', configFile], { DELIVERY_TOKEN: 'x' }, wrap);
  afterThisTest(async () => {
    agent.kill('SIGKILL');
    await agent.ended;
  });
  const value = async (name: string) => (await scrape(`http://${listen}`)).sum(name);
  return { agent, value };
}

/** Expects that SIGTERM ends the agent with 0 within 10 s. */
async function expectStop(agent: Pick<CliProcess, 'kill' | 'ended'>): Promise<void> {
  const start = performance.now();
  agent.kill('SIGTERM');
  expect(await agent.ended).toBe(0);
  expect(performance.now() - start).toBeLessThan(10_000);
}

/** Asserts that each line is JSON, except the remainder of a line that was cut. Returns the text. */
function expectLines(text: string): string {
  for (const line of text.split('\n').slice(1, -1)) expect(() => JSON.parse(line)).not.toThrow();
  return text;
}

describe('serve with a log that cannot be written', () => {
  it.each([
    ['the disk is full', 'exec "$@" 2>/dev/full'],
    ['the disk is full, for both outputs', 'exec "$@" >/dev/full 2>&1'],
    ['the file is open for reading', 'exec "$@" 2</dev/null'],
    ['the reader of the pipe has ended', 'mkfifo fifo; exec 3<>fifo 2>fifo 3<&-; exec "$@"'],
  ])('if %s, serve responds to scrapes, counts dropped lines and stops', async (_what, shell) => {
    const { agent, value } = await startAgent(shell, newFolder());
    await eventually(async () => expect(await value(DROPPED)).toBeGreaterThan(5));
    await expectStop(agent);
  });

  it('if the log file reaches the size limit, serve drops lines, and logs again once the file is smaller', async () => {
    const folder = newFolder();
    const log = join(folder, 'log');
    writeFileSync(log, '');
    truncateSync(log, 2 ** 23 - 10);
    const { agent, value } = await startAgent('ulimit -f 16384; exec "$@" 2>>log', folder);
    await eventually(async () => expect(await value(DROPPED)).toBeGreaterThan(5));
    truncateSync(log);
    await eventually(() => expect(readFileSync(log, 'utf8')).toContain('"msg":'));
    await expectStop(agent);
    expect(expectLines(readFileSync(log, 'utf8'))).toContain('"msg":"stopped"');
  });

  it('if the pipe is full from the start, serve responds to scrapes, logs when the pipe is read, and stops on SIGTERM', async () => {
    const fifo = createFifo();
    fifo.fill();
    const { agent, value } = await startAgent(`exec "$@" 2>${fifo.path}`, newFolder());
    await eventually(async () => expect(await value(DROPPED)).toBe(0));
    let text = '';
    await eventually(() => {
      text += fifo.read();
      expect(text).toContain('"msg":"delivery-watch is listening"');
    });
    expectLines(text);
    fifo.fill();
    await expectStop(agent);
  });

  it('if the pipe is full and the configuration is invalid, serve exits with 2', async () => {
    const fifo = createFifo();
    fifo.fill();
    const args = ['serve', '--config', 'test/config/bad/unknown-key.yaml'];
    expect((await runCli(args, { TOKEN: 'x' }, ['sh', '-c', `exec "$@" 2>${fifo.path}`, 'sh'])).code).toBe(2);
  });

  it.skipIf(!requireProgram('script')).each([
    ['is stopped', 'SIGSTOP'],
    ['has hung up', 'SIGKILL'],
  ] as const)('if the terminal %s, serve responds to scrapes and stops', async (_what, signal) => {
    const folder = newFolder();
    const file = (name: string) => readFileSync(join(folder, name), 'utf8').trim();
    writeFileSync(join(folder, 'run'), 'trap "" HUP; stty raw; "$@" 2>&1 & echo $! >pid; wait $!; echo $? >code');
    const shell = 'export COMMAND="sh run $*"; exec script -qec "$COMMAND" /dev/null >&2';
    const { agent: terminal, value } = await startAgent(shell, folder);
    const requests = () => value('delivery_watch_api_requests_total');
    await eventually(async () => expect(await requests()).toBeGreaterThan(10));
    const pid = Number(file('pid'));
    afterThisTest(async () => {
      if (!existsSync(join(folder, 'code'))) process.kill(pid, 'SIGKILL');
    });
    terminal.kill(signal);
    // A request logs more than 150 characters, and a terminal holds less than 65,000.
    const before = (await requests()) ?? 0;
    await eventually(async () => expect(await requests()).toBeGreaterThan(before + 800));
    const start = performance.now();
    process.kill(pid, 'SIGTERM');
    await eventually(() => expect(file('code')).toBe('0'));
    expect(performance.now() - start).toBeLessThan(10_000);
  });
});

describe('commands that cannot write their output', () => {
  const run = (shell: string, ...args: string[]) => runCli(args, {}, ['sh', '-c', shell, 'sh']);

  it('if nothing reads the output of a command any more, it ends without an error', async () => {
    expect(await run('{ "$@"; echo "code $?" >&2; } | head -c 1', 'dashboards', 'print')).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^.$/),
      stderr: 'code 0\n',
    });
  });

  it('if its output is full, a command exits with 1 and the reason', async () => {
    const { code, stderr } = await run('exec "$@" >/dev/full', 'rules', 'print');
    expect([code, stderr]).toEqual([1, 'standard output: ENOSPC: no space left on device, write\n']);
  });

  it('if only standard error is full, a command prints its result', async () => {
    const file = join(newFolder(), 'config.yaml');
    writeFileSync(file, 'accounts: [{ name: a, baseUrl: "http://127.0.0.1:1", token: written-in-the-file }]');
    const { code, stdout } = await run('exec "$@" 2>/dev/full', 'check-config', file);
    expect([code, stdout]).toEqual([0, `${file} is valid: 1 account (a)\n`]);
  });
});
