import { Agent, get } from 'node:http';
import { availableParallelism, cpus, loadavg } from 'node:os';

export interface Timings {
  readonly median: number;
  readonly p99: number;
  readonly count: number;
}

/** Returns the median and the 99th percentile (nearest rank) of times in milliseconds. */
export function timingsOf(times: readonly number[]): Timings {
  const sorted = times.toSorted((a, b) => a - b);
  const rank = (share: number) =>
    sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
  return { median: rank(0.5), p99: rank(0.99), count: sorted.length };
}

/** Returns the processor time of all threads of this process (ms), which other load does not affect. */
export function processorTime(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

const agent = new Agent({ keepAlive: true, maxSockets: 1 });

/** Reads a complete response over a persistent connection. Returns the time to its last byte and its length as sent. */
export function timeGet(
  url: string,
  headers: Readonly<Record<string, string>>,
): Promise<{ ms: number; bytes: number }> {
  return new Promise((resolve, reject) => {
    const start = performance.now();
    const request = get(url, { agent, headers, timeout: 60_000 }, response => {
      let bytes = 0;
      response.on('data', (chunk: Buffer) => {
        bytes += chunk.length;
      });
      response.on('error', reject);
      response.on('end', () => {
        if (response.statusCode !== 200) reject(new Error(`${url} responded with status ${response.statusCode}`));
        else resolve({ ms: performance.now() - start, bytes });
      });
    });
    request.on('timeout', () => request.destroy(new Error(`${url} did not respond within a minute`)));
    request.on('error', reject);
  });
}

/** Describes the machine and its load in the previous minute, because other load lowers the measured ratios. */
export function machine(): string {
  const load = loadavg()[0]?.toFixed(1);
  return `${cpus()[0]?.model.trim()}, ${availableParallelism()} cores, Node ${process.version}, load average ${load} at the start`;
}

/** Formats a Markdown table. All columns except the first are right-aligned. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(...[title, ...rows.map(row => row[column] ?? '')].map(cell => cell.length)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => (column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = `|${widths.map((width, column) => (column === 0 ? '-'.repeat(width + 2) : `${'-'.repeat(width + 1)}:`)).join('|')}|`;
  return [line(head), rule, ...rows.map(line)].join('\n');
}

/** Formats a Markdown table of actual and target values and whether each target is met. */
export const targets = (rows: readonly (readonly [what: string, is: string, wanted: string, met: boolean])[]) =>
  table(
    ['target', 'is', 'wanted', 'met'],
    rows.map(([what, is, wanted, met]) => [what, is, wanted, met ? 'yes' : 'no']),
  );
