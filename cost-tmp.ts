import { createRuntime } from './src/app/runtime.ts';
import { Config } from './src/config/schema.ts';
import { systemClock } from './src/kit/clock.ts';
import { createSharedStore } from './test/support/fake-replicas.ts';
import { monitorEventLoopDelay } from 'node:perf_hooks';
const N = 1000;
const names = Array.from({length:N}, (_, i) => `account-${i}`);
const config = Config.parse({
  log: { level: process.env.LEVEL ?? 'silent' }, store: { kind: 'memory' }, server: { listen: '127.0.0.1:0' },
  accounts: names.map(name => ({ name, baseUrl: 'http://127.0.0.1:9', token: 'x' })),
  collect: { flowControl: { every: '1h' }, dlq: { every: '1h', rescanEvery: '1h' }, events: { every: '1h' } },
  alerts: { enabled: true, evaluateEvery: '1h', notifiers: [{ name: 'hook', webhook: { url: 'http://127.0.0.1:9/' } }], rules: [] },
});
const database = createSharedStore(systemClock, 1000);
for (const name of names) database.place(name, 'one');
database.place('account-500', 'two'); 
const store = database.join('one');
const loaded = { file: 'x', config, hash: 'x', warnings: [] } as never;
const runtime = await createRuntime(loaded, { env: {}, clock: systemClock, random: Math.random, openStore: async () => store });
const t0 = process.cpuUsage();
runtime.start();
const count = () => runtime.served.status().length;
while (count() < N - 1) await systemClock.sleep(50);
await systemClock.sleep(4000);
console.log('open all', process.cpuUsage(t0).user / 1000);

for (let time = 0; time < 40; time += 1) {
  const to = time % 2 === 0 ? 'one' : 'two';
  database.place('account-500', to);
  const delay = monitorEventLoopDelay({ resolution: 1 }); delay.enable();
  const cpu = process.cpuUsage();
  const from = database.course.length;
  while (!database.course.slice(from).some(step => step === (to === 'one' ? 'one gained account-500' : 'one released account-500'))) await systemClock.sleep(5);
  await systemClock.sleep(150);
  const used = process.cpuUsage(cpu);
  delay.disable();
  console.log(to, 'cpu ms', Math.round((used.user + used.system) / 1000), 'longest ms', Math.round(delay.max / 1e6));
}
{
  const delay = monitorEventLoopDelay({ resolution: 1 }); delay.enable();
  const cpu = process.cpuUsage();
  await systemClock.sleep(500);
  const used = process.cpuUsage(cpu);
  console.log('idle', 'cpu ms', Math.round((used.user + used.system) / 1000), 'longest ms', Math.round(delay.max / 1e6));
}
await runtime.close();
process.exit();
