/** `node --import ./stalls.mjs …`: writes how long each turn of the main thread took, in processor time, to the file STALLS names. */
import { subscribe } from 'node:diagnostics_channel';
import { writeFileSync } from 'node:fs';

const file = process.env.STALLS;
if (file) {
  const used = () => {
    const { user, system } = process.threadCpuUsage();
    return (user + system) / 1000;
  };
  let last = used();
  let lastAt = performance.now();
  const turns = [];
  let peak = 0;
  let memory = {};
  const stalls = [];
  const base = Number(process.hrtime.bigint() / 1000n) - performance.now() * 1000;
  setInterval(() => {
    const now = used();
    const at = performance.now();
    if (process.uptime() > 12) {
      turns.push(now - last);
      if (now - last > 8) stalls.push([Math.round(base + lastAt * 1000), Math.round(base + at * 1000), now - last]);
    }
    last = now;
    lastAt = at;
  }, 1).unref();
  setInterval(() => {
    const rss = process.memoryUsage.rss();
    if (rss <= peak) return;
    peak = rss;
    memory = process.memoryUsage();
  }, 100).unref();
  // What a scrape waits for in this thread, from its request to its last byte.
  const scrapes = [];
  const begun = new WeakMap();
  subscribe('http.server.request.start', ({ request }) => begun.set(request, used()));
  subscribe('http.server.response.finish', ({ request }) => scrapes.push(used() - begun.get(request)));
  process.on('exit', () => {
    const sorted = turns.toSorted((a, b) => a - b);
    const rank = share => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? 0;
    writeFileSync(
      file,
      JSON.stringify({
        count: sorted.length,
        p50: rank(0.5),
        p99: rank(0.99),
        p999: rank(0.999),
        top: sorted.slice(-15),
        over15: sorted.filter(x => x > 15).length,
        over8: sorted.filter(x => x > 8).length,
        cpu: process.cpuUsage(),
        thread: process.threadCpuUsage(),
        scrapes: scrapes.toSorted((a, b) => a - b),
        peakMiB: peak / 1048576,
        at: memory,
        up: process.uptime(),
        stalls,
      }),
    );
  });
}
