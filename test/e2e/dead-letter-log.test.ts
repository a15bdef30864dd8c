import { readFileSync, writeFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { createAgent, unlimited } from '../support/agent.ts';
import { emulateEmpty } from '../support/emulate.ts';
import { eventually } from '../support/eventually.ts';

const SECRET = 'canary-secret';

/** Starts an emulated service with one dead letter and creates an agent that reads it. */
async function setUp({ deadLetters = true } = {}) {
  const emulator = await emulateEmpty();
  const add = (name: string) =>
    emulator.state.addDlqEntry({
      messageId: `msg_${name}`,
      url: `https://user:${SECRET}@api.example.com/${SECRET}?key=${SECRET}`,
      responseStatus: 503,
      responseBody: SECRET,
    });
  add('first');
  const agent = createAgent(
    {
      log: { deadLetters },
      accounts: [unlimited('a', emulator.url)],
      collect: {
        flowControl: { enabled: false },
        dlq: { every: '200ms', rescanEvery: '1s' },
        events: { enabled: false },
      },
    },
    { DELIVERY_TOKEN: emulator.token },
  );
  const counted = () => agent.value('delivery_dlq_entered_total', { account: 'a' });
  /** Log of the previous processes. */
  const earlier: string[] = [];
  /** Lines about dead letters, from all processes so far. */
  const lines = () =>
    [...earlier, agent.process.stderr()]
      .join('')
      .split('\n')
      .filter(line => line.includes('new dead letter'))
      .map(line => JSON.parse(line));
  return {
    emulator,
    agent,
    add,
    counted,
    lines,
    messages: () => lines().map(({ messageId }) => messageId),
    async start() {
      await agent.start();
      await eventually(async () => expect(await agent.value('delivery_dlq_messages')).toBeGreaterThan(0));
    },
    async kill() {
      await agent.end('SIGKILL');
      earlier.push(agent.process.stderr());
    },
  };
}

describe('log.deadLetters', () => {
  it('each new dead letter is logged once, without its content, even if the agent is killed', async () => {
    const { agent, emulator, add, counted, lines, messages, start, kill } = await setUp();
    await start();
    const second = add('second');
    await eventually(() => expect(messages()).toEqual(['msg_second']));
    await kill();
    add('third');
    await start();
    await eventually(() => expect(messages()).toEqual(['msg_second', 'msg_third']));
    emulator.state.removeDlqEntry(second);
    add('fourth');
    await eventually(async () => expect(await counted()).toBe(3));
    expect(await agent.end('SIGTERM')).toBe(0);
    expect(messages()).toEqual(['msg_second', 'msg_third', 'msg_fourth']);
    expect(lines()[0]).toEqual({
      time: expect.any(String),
      level: 'warn',
      msg: 'new dead letter',
      account: 'a',
      host: expect.any(String),
      dlqId: second,
      messageId: 'msg_second',
      enteredAt: expect.stringMatching(/^\d{4}-.*Z$/),
      urlHost: 'api.example.com',
      method: 'POST',
      responseStatus: 503,
    });
    expect(JSON.stringify(lines())).not.toContain(SECRET);
  });

  it('logging of dead letters is off by default and can be enabled by a reload', async () => {
    const { agent, add, counted, messages, start } = await setUp({ deadLetters: false });
    await start();
    add('unseen');
    await eventually(async () => expect(await counted()).toBe(1));
    const config = JSON.parse(readFileSync(agent.configFile, 'utf8'));
    config.log.deadLetters = true;
    writeFileSync(agent.configFile, JSON.stringify(config));
    agent.process.kill('SIGHUP');
    await eventually(() => expect(agent.process.stderr()).toContain('reloaded'));
    add('seen');
    await eventually(() => expect(messages()).toEqual(['msg_seen']));
  });
});
